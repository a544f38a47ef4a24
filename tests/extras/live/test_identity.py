"""Live runs on virtual time have the tables of the simulation, to the last bit."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.tables import TasksTable
from asyncfl.protocol.event_query import select
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live.conftest import SMALL

Live = Callable[..., SeedRun]
WORLD: dict[str, Any] = {
    "device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.7},
    "downlink": {"latency_s": {"kind": "uniform", "low": 0.01, "high": 0.09}, "bandwidth_bps": 1e6},
    "uplink": {
        "latency_s": {"kind": "uniform", "low": 0.01, "high": 0.2},
        "bandwidth_bps": 4e5,
        "jitter_s": {"kind": "exponential", "mean": 0.03},
    },
}
LOSSY: dict[str, Any] = {
    "loss": {"kind": "independent", "probability": 0.15},
    "retransmissions": 1,
    "retransmission_timeout_s": 0.11,
}
LEAVING: dict[str, Any] = {
    "availability": {
        "kind": "alternating",
        "on_s": {"kind": "exponential", "mean": 0.8},
        "off_s": {"kind": "exponential", "mean": 0.5},
    }
}


def same(live: Live, description: dict[str, Any]) -> SeedRun:
    """Assert that a live run on virtual time and its simulation have the same tables. Returns the live run."""
    scenario = Scenario.read({**SMALL, **description})
    told, simulated = live(scenario, virtual=True), simulate_seed(scenario, 0)
    for one, other in zip(simulated.events.to_pylist(), told.events.to_pylist(), strict=False):
        assert str(one) == str(other)  # NaN is equal to NaN
    assert len(told.events) == len(simulated.events)
    # Live clients train also what is lost afterwards: columns about trained updates are not compared.
    of_tasks = [run.tasks.select(list(TasksTable.model_fields)).to_pandas() for run in (simulated, told)]
    for name in of_tasks[0]:
        assert of_tasks[0][name].equals(of_tasks[1][name]), name
    rounds = pd.DataFrame(list(told.rounds)), pd.DataFrame(list(simulated.rounds))
    pd.testing.assert_frame_equal(*rounds, check_exact=True, check_dtype=False)
    assert told.fates == simulated.fates
    assert told.traffic == simulated.traffic
    assert told.stopped == simulated.stopped
    return told


SYNC: dict[str, Any] = {"kind": "sync", "rounds": 4, "participants": 4, "over_selection": 1.5}
BUFFERED: dict[str, Any] = {
    "kind": "buffered",
    "rounds": 6,
    "buffer": 2,
    "dispatch": {"kind": "constant", "in_flight": 4},
}
FEDASYNC: dict[str, Any] = {"kind": "fedasync", "rounds": 8, "in_flight": 5}
PROTOCOLS = {"sync": SYNC, "buffered": BUFFERED, "fedasync": FEDASYNC}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "world",
    [
        WORLD,
        {**WORLD, "dropout": 0.3, "downlink": {**WORLD["downlink"], **LOSSY}, "uplink": {**WORLD["uplink"], **LOSSY}},
        {**WORLD, **LEAVING},
        {**WORLD, **LEAVING, "failure_detection": {"kind": "instant"}},
        {**WORLD, **LEAVING, "failure_detection": {"kind": "lease", "seconds": 0.2}, "aggregate_s": 0.05},
    ],
    ids=["links", "lossy", "leaving", "instant", "leases"],
)
def test_protocols_in_worlds_with_losses_absences_and_leases(live: Live, protocol: str, world: dict[str, Any]) -> None:
    same(live, {"protocol": PROTOCOLS[protocol], "world": world})


def test_simultaneous_events_are_handled_in_the_order_of_dispatch(live: Live) -> None:
    """Three of the first four lose their models at one moment, and who is heard first is asked again first."""
    lossy = {"loss": {"kind": "independent", "probability": 0.1}, "retransmissions": 0, "retransmission_timeout_s": 0.5}
    link = {"latency_s": {"kind": "uniform", "low": 0.01, "high": 0.10774674976960763}, "bandwidth_bps": 2e5, **lossy}
    told = same(live, {"protocol": BUFFERED, "world": {**WORLD, "downlink": link}})
    lost = select(told.events, kinds=["lost"])
    assert lost["time_s"].to_pylist()[:3] == pytest.approx([1.0104] * 3)
    assert lost["client"].to_pylist()[:3] == [1, 0, 2]


SAFL: dict[str, Any] = {
    "data": {**SMALL["data"], "clients": 8},
    "protocol": {**BUFFERED, "buffer": 4, "dispatch": {"kind": "constant", "in_flight": 6}},
    "threats": {"attack": {"kind": "sign_flip"}, "attackers": 0.4},
    "defence": {"detector": {"kind": "safl"}, "strikes": {"threshold": 1}},
}


@pytest.mark.parametrize("scoring", ["parallel", "serial"])
@pytest.mark.parametrize(
    "world",
    # A client that is back while it is at a task and asked for scores answers for both at one moment: in either order.
    [WORLD, {**WORLD, **LEAVING, "failure_detection": {"kind": "instant"}}],
    ids=["links", "leaving"],
)
def test_scores_and_bans(live: Live, scoring: str, world: dict[str, Any]) -> None:
    protocol = {**SAFL["protocol"], "scoring": scoring}
    tapped = {**world, "tap": {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.05}}
    told = same(live, {**SAFL, "protocol": protocol, "world": tapped})
    kinds = told.events["kind"].to_pylist()
    assert {"scores_requested", "scored", "banned", "overheard"} <= set(kinds)


def test_clients_that_spend_their_budgets(live: Live) -> None:
    privacy = {"kind": "local_gaussian", "epsilon": 5.0, "stop_at": {"epsilon": 11.0, "accountant": "naive"}}
    training = {**SMALL["training"], "gradient_clip": 1.0}
    told = same(
        live, {"protocol": {**BUFFERED, "rounds": 40}, "world": WORLD, "privacy": privacy, "training": training}
    )
    assert "budget_spent" in told.events["kind"].to_pylist()


def test_correlated_noise_and_clients_that_rest_between_versions(live: Live) -> None:
    banded = {"kind": "dp_ftrl", "noise_multiplier": 2.0, "factorisation": {"kind": "banded", "bands": 3}}
    limits = {"min_separation": 2, "max_participations": 3, "rounds": 12}
    same(live, {"protocol": {**BUFFERED, **limits}, "world": {**WORLD, **LEAVING}, "privacy": banded})


def test_poisson_batches(live: Live) -> None:
    dp = {"batches": "poisson", "example_clip": 1.0, "example_noise": 1.0, "epochs": 3, "deadline_s": 0.3}
    privacy = {"kind": "dp_sgd", "noise_multiplier": 1.0}
    description = {"protocol": BUFFERED, "world": WORLD, "privacy": privacy, "training": {**SMALL["training"], **dp}}
    told, simulated = same(live, description), simulate_seed(Scenario.read({**SMALL, **description}), 0)
    assert [one.release for one in told.uploads] == [one.release for one in simulated.uploads]
    assert {one.release.rate < 1 for one in told.uploads} == {True}
    assert len({one.release.count for one in told.uploads}) > 1  # some were stopped early


@pytest.mark.parametrize("world", [WORLD, {**WORLD, **LEAVING, "dropout_per_s": 0.1}], ids=["links", "leaving"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_that_stop_at_a_deadline(live: Live, protocol: str, world: dict[str, Any]) -> None:
    training = {**SMALL["training"], "epochs": 3, "deadline_s": 0.3}
    description = {"protocol": PROTOCOLS[protocol], "world": world, "training": training}
    told, simulated = same(live, description), simulate_seed(Scenario.read({**SMALL, **description}), 0)
    details = set(told.events["detail"].to_pylist())
    assert {"1 of 3 epochs", "no epoch by its deadline"} <= details
    assert [one.contribution for one in told.uploads] == [one.contribution for one in simulated.uploads]
    assert [one.loss for one in told.uploads] == [one.loss for one in simulated.uploads]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "compression",
    [{"kind": "quantised", "bits": 4}, {"kind": "top_k", "share": 0.1}, {"kind": "top_k", "error_feedback": False}],
    ids=["quantised", "top_k", "forgetful"],
)
def test_compressed_updates_and_models(live: Live, protocol: str, compression: dict[str, Any]) -> None:
    """Updates and models at once; a 4-bit number per parameter and the scale of a download."""
    description = {
        "protocol": PROTOCOLS[protocol],
        "world": WORLD,
        "compression": compression,
        "download_compression": {"kind": "quantised", "bits": 4},
    }
    scenario = Scenario.read({**SMALL, **description})
    told, simulated = same(live, description), simulate_seed(scenario, 0)
    sent = 4 + (4 * scenario.n_parameters + 7) // 8
    assert set(select(told.events, kinds=["download_started"])["bytes"].to_pylist()) == {sent}
    # What real clients have trained in vain is in what they have left over.
    collected = [one.loss for one in told.uploads if one.loss is not None]
    assert collected == [one.loss for one in simulated.uploads]
    assert [row["test_loss"] for row in told.rounds] == [row["test_loss"] for row in simulated.rounds]
    assert told.rounds[-1]["bytes_up"] == simulated.rounds[-1]["bytes_up"]


def test_updates_of_another_length_are_not_compressed(live: Live) -> None:
    threats = {"attackers": 2, "attack": {"kind": "wrong_length"}}
    told = same(live, {"protocol": SYNC, "world": WORLD, "threats": threats, "compression": {"kind": "quantised"}})
    assert told.fates["rejected"] > 0


def test_an_offline_client_is_back_at_the_end_of_that_period(live: Live) -> None:
    """By a sum of floats the simulated clock stood just before the moment at which the client went."""
    loss = {"kind": "independent", "probability": 0.1}
    uniform = {"kind": "uniform", "low": 0.01}
    down = {"loss": loss, "retransmission_timeout_s": 0.19506878975716013, "retransmissions": 0, "bandwidth_bps": 1e6}
    up = {"loss": loss, "retransmission_timeout_s": 0.195668353509244, "retransmissions": 1, "bandwidth_bps": 1e6}
    world = {
        "device": WORLD["device"],
        "downlink": {**down, "latency_s": {**uniform, "high": 0.15}},
        "uplink": {**up, "latency_s": {**uniform, "high": 0.5540987159628986}},
        "tap": {"uplink": True, "packet_loss": 0.1},
        "failure_detection": {"kind": "lease", "seconds": 1.8271822214243771},
        "availability": {
            "kind": "alternating",
            "on_s": {"kind": "exponential", "mean": 0.5},
            "off_s": {"kind": "exponential", "mean": 0.558661731123304},
        },
    }
    training = {**SMALL["training"], "epochs": 2, "deadline_s": 1.1976566219950917}
    compression = {"kind": "quantised", "bits": 8}
    same(live, {"world": world, "protocol": FEDASYNC, "training": training, "download_compression": compression})


links = st.fixed_dictionaries(
    {
        "latency_s": st.fixed_dictionaries(
            {"kind": st.just("uniform"), "low": st.just(0.01), "high": st.floats(0.05, 1)}
        ),
        "bandwidth_bps": st.sampled_from([2e5, 1e6]),
        "loss": st.fixed_dictionaries({"kind": st.just("independent"), "probability": st.sampled_from([0.0, 0.1])}),
        "retransmissions": st.integers(0, 2),
        "retransmission_timeout_s": st.floats(0.05, 0.5),
    }
)
periods = st.fixed_dictionaries({"kind": st.just("exponential"), "mean": st.floats(0.5, 3)})
worlds = st.fixed_dictionaries(
    {
        "device": st.just(WORLD["device"]),
        "downlink": links,
        "uplink": links,
        "availability": st.one_of(
            st.just({"kind": "always"}),
            st.fixed_dictionaries({"kind": st.just("alternating"), "on_s": periods, "off_s": periods}),
        ),
        "failure_detection": st.one_of(
            st.just({"kind": "instant"}),
            st.fixed_dictionaries({"kind": st.just("lease"), "seconds": st.floats(0.1, 4)}),
        ),
        "dropout": st.sampled_from([0.0, 0.2]),
        "aggregate_s": st.sampled_from([0.0, 0.1]),
        "tap": st.just({"uplink": True, "packet_loss": 0.1}),
    }
)
protocols = st.one_of(
    st.just(SYNC),
    st.fixed_dictionaries(
        {"kind": st.just("sync"), "rounds": st.just(3), "open": st.just({"kind": "quorum", "share": 0.5})}
    ),
    st.fixed_dictionaries(
        {"kind": st.just("sync"), "rounds": st.just(3), "open": st.just({"kind": "deadline", "seconds": 0.7})}
    ),
    st.just(BUFFERED),
    st.fixed_dictionaries(
        {**{name: st.just(value) for name, value in BUFFERED.items()}, "max_staleness": st.integers(1, 3)}
    ),
    st.just(FEDASYNC),
)


TINY: dict[str, Any] = {
    "data": {**SMALL["data"], "samples_per_client": 10, "test_samples": 10},
    "model": {"kind": "mlp", "hidden": [2]},
}
EQUAL: dict[str, Any] = {"device": {"kind": "fixed", "s_per_sample": 0.1}}
"""Devices of one speed: ten samples take a second."""


def test_equal_devices_on_free_downlinks(live: Live) -> None:
    """All clients train until the same moment. Selection and weights would differ with the order of their arrivals."""
    uplink = {"latency_s": {"kind": "lognormal", "median": 0.05, "sigma": 1.5}}
    same(live, {**TINY, "protocol": {"kind": "sync", "rounds": 3}, "world": {**EQUAL, "uplink": uplink}})


def test_updates_of_one_moment_arrive_in_the_order_of_their_tasks(live: Live) -> None:
    told = same(live, {**TINY, "protocol": BUFFERED, "world": EQUAL})
    arrived = select(told.events, kinds=["uploaded"]).to_pandas()
    assert arrived["task"].is_monotonic_increasing
    # Each second four tasks end, which are two versions.
    assert arrived.groupby("time_s").size().tolist() == [4, 4, 4]
    assert arrived["version"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_what_ends_with_the_time_limit_counts(live: Live) -> None:
    """At one second all six updates arrive, the cohort's deadline passes, and the time limit ends the run, in this
    order."""
    protocol = {"kind": "sync", "rounds": 3, "time_limit_s": 1.0, "open": {"kind": "deadline", "seconds": 1.0}}
    told = same(live, {**TINY, "protocol": protocol, "world": EQUAL})
    last = [row for row in told.events.to_pylist() if row["time_s"] == 1.0]
    kinds = [row["kind"] for row in last]
    assert kinds.count("uploaded") == kinds.count("aggregated") == 6
    timers = [row["detail"] for row in last if row["kind"] == "timer_fired"]
    assert timers == ["deadline:0", "time_limit"]
    assert (told.stopped, told.rounds[-1]["version"]) == ("time limit reached", 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_that_are_offline_at_the_end_of_a_phase_have_not_ended_it(live: Live, protocol: str) -> None:
    """All go offline two seconds after the start, when their second training would end, and are back a day later."""
    night = {"kind": "diurnal", "from_h": 0.0, "hours": 2 / 3600}
    world = {**EQUAL, "availability": night, "failure_detection": {"kind": "instant"}}
    told = same(live, {**TINY, "protocol": {**PROTOCOLS[protocol], "time_limit_s": 90000.0}, "world": world})
    trained = select(told.events, kinds=["trained"])["time_s"].to_pylist()
    assert 2.0 not in trained
    assert 86401.0 in trained
    # All go offline before the server learns of the first, and asks another.
    ends = select(told.events, kinds=["went_offline", "dropped_out"]).to_pylist()
    kinds = [row["kind"] for row in ends if row["time_s"] == 2.0 and row["task"] >= 0]
    tasks = len(kinds) // 2
    assert kinds == ["went_offline"] * tasks + ["dropped_out"] * tasks
    assert tasks >= 4


latencies = st.sampled_from([0.0, 0.5, 1.0, {"kind": "lognormal", "median": 0.05, "sigma": 1.5}])
tied_links = st.fixed_dictionaries(
    {"latency_s": latencies},
    optional={
        "loss": st.just({"kind": "independent", "probability": 0.3}),
        "retransmissions": st.integers(0, 1),
        "retransmission_timeout_s": st.just(0.5),
    },
)
tied_worlds = st.fixed_dictionaries(
    {
        "device": st.sampled_from([EQUAL["device"], {"kind": "fixed", "s_per_sample": 0.05}]),
        "downlink": tied_links,
        "uplink": tied_links,
    },
    optional={
        "tap": st.fixed_dictionaries(
            {"uplink": st.booleans(), "downlink": st.just(True), "packet_loss": st.sampled_from([0.0, 0.1])}
        ),
        "availability": st.one_of(
            st.just({"kind": "alternating", "on_s": 2.0, "off_s": 1.0}),
            st.builds(
                lambda start: {"kind": "diurnal", "from_h": 0.0, "hours": 12.0, "starts_at_h": start},
                st.sampled_from([0.0, 11.9995, 23.9995]),
            ),
        ),
        "failure_detection": st.sampled_from(
            [{"kind": "instant"}, {"kind": "lease", "seconds": 0.5}, {"kind": "lease", "seconds": 1.0}]
        ),
        "aggregate_s": st.sampled_from([0.5, 1.0]),
        "dropout": st.just(0.3),
    },
)
tied_protocols = st.one_of(
    st.sampled_from([SYNC, BUFFERED, FEDASYNC]),
    st.builds(
        lambda seconds: {"kind": "sync", "rounds": 3, "open": {"kind": "deadline", "seconds": seconds}},
        st.sampled_from([0.5, 1.0, 1.5]),
    ),
)


@settings(max_examples=30, deadline=None)
@given(
    world=tied_worlds,
    protocol=tied_protocols,
    limit_s=st.sampled_from([1.0, 1.5, 2.0, 4.5, 40.0]),
    scoring=st.sampled_from([None, "parallel", "serial"]),
)
def test_any_scenario_with_ties(
    live: Live, world: dict[str, Any], protocol: dict[str, Any], limit_s: float, scoring: str | None
) -> None:
    description = {**TINY, "world": world, "protocol": {**protocol, "time_limit_s": limit_s}}
    if scoring is not None:
        scores = {**SAFL["protocol"], "buffer": 3, "scoring": scoring, "time_limit_s": limit_s}
        description |= {"protocol": scores, "threats": SAFL["threats"], "defence": SAFL["defence"]}
    same(live, description)


downloads = [{"kind": "none"}, {"kind": "quantised", "bits": 8}]


@settings(max_examples=12, deadline=None)
@given(
    world=worlds,
    protocol=protocols,
    deadline_s=st.one_of(st.none(), st.floats(0.1, 2)),
    downloads=st.sampled_from(downloads),
)
def test_any_scenario(
    live: Live, world: dict[str, Any], protocol: dict[str, Any], deadline_s: float | None, downloads: dict[str, Any]
) -> None:
    training = {**SMALL["training"], "epochs": 2, "deadline_s": deadline_s}
    protocol = {**protocol, "time_limit_s": 40.0}
    same(live, {"world": world, "protocol": protocol, "training": training, "download_compression": downloads})
