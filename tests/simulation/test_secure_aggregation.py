"""Runs with secure aggregation: the model of the clear but for rounding, the messages of its rounds, and its fates."""

from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.protocol.settings import Sync
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed

BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 8, "source": "embedded", "test_samples": 10},
    "model": {"kind": "mlp", "hidden": []},
    "training": {"lr": 0.05, "batch_size": 4},
    "protocol": {"kind": "sync", "rounds": 2},
    "world": {
        "device": {"kind": "fixed", "s_per_sample": 0.1},
        "uplink": {"latency_s": 0.5, "bandwidth_bps": 8e6},
        "downlink": {"latency_s": 0.25, "bandwidth_bps": 8e6},
    },
    "evaluation": {"train_every": 0, "test_every": 0},
}
NUMBERS = 7850
PAIRWISE = {"kind": "pairwise", "threshold": 4}
LIGHT = {"kind": "lightsecagg", "threshold": 4, "colluders": 1}
BUFFERED = {"kind": "buffered", "rounds": 4, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}}


def run(changes: dict[str, Any] | None = None, seed: int = 0) -> Any:
    return simulate_seed(Scenario.read(BASE).override(changes or {}), seed)


def models_of(changes: dict[str, Any]) -> np.ndarray:
    """The last model of a run."""
    from asyncfl.base.instrument import Instrument

    class Last(Instrument):
        model: Any = None

        def published(self, time_s: float, publish: Any, traffic: Any) -> None:
            self.model = publish.model.copy()

    last = Last()
    simulate_seed(Scenario.read(BASE).override(changes), 0, [last])
    return np.asarray(last.model)


def events_of(one: Any, kind: str) -> list[dict[str, Any]]:
    return [event for event in one.events.to_pylist() if event["kind"] == kind]


@pytest.mark.parametrize("secure", [PAIRWISE, LIGHT])
@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_a_synchronous_round_makes_the_model_of_the_clear_but_for_rounding(
    secure: dict[str, Any], weighting: str
) -> None:
    """Each number of each update moves by less than a step of 2^-15 in each of two rounds; the second round trains from
    the first model, whose difference a small learning rate passes on almost unchanged."""
    protocol = {"protocol.weighting": weighting}
    clear, hidden = models_of(protocol), models_of({**protocol, "protocol.secure_aggregation": secure})
    assert not np.array_equal(clear, hidden)
    assert np.abs(clear - hidden).max() < 4 / (2**15 - 1)


def test_a_buffer_of_versions_makes_the_model_of_the_clear_but_for_rounding_and_weights() -> None:
    """Staleness weights are rounded to 1/2^16 of a fresh one, and the clock is the same without latency."""
    instant = {"world.uplink": {}, "world.downlink": {}, "world.device": {"kind": "fixed", "s_per_sample": 0.1}}
    clear = models_of({**instant, "protocol": {**BUFFERED, "rounds": 2}})
    fine = {**LIGHT, "bits": 14, "weight_bits": 14, "range": 0.25}
    hidden = models_of({**instant, "protocol": {**BUFFERED, "rounds": 2, "secure_aggregation": fine}})
    assert np.abs(clear - hidden).max() < 4 * 0.25 / (2**13 - 1)


def test_messages_of_pairwise_rounds_take_time_and_bytes() -> None:
    """By hand: two round trips of 0.75 s before the model is sent, then one to unmask; each message at 1 MB/s."""
    one = run({"protocol.secure_aggregation": PAIRWISE, "protocol.rounds": 1})
    keys_up, keys_down, shares, answer, request = 2 * 32, 2 * 5 * 32, 2 * 5 * 32, 6 * 32, 1
    setup_s = 2 * 0.75 + (keys_up + keys_down + 2 * shares) / 1e6
    [first, *_] = events_of(one, "masks_agreed")
    assert first["time_s"] == pytest.approx(setup_s)
    assert first["bytes"] == keys_up + keys_down + 2 * shares
    task_s = 0.25 + 0.8 + 0.5 + 2 * 4 * NUMBERS / 1e6
    [unmasked] = events_of(one, "unmasked")
    assert unmasked["time_s"] == pytest.approx(setup_s + task_s + 0.75 + (request + answer) / 1e6)
    assert unmasked["detail"] == "6 updates by 4 of 6 clients"
    assert one.rounds[-1]["bytes_up"] == 6 * (keys_up + shares + 4 * NUMBERS + answer)
    assert one.rounds[-1]["bytes_down"] == 6 * (keys_down + shares + 4 * NUMBERS + request)


def test_messages_of_lightsecagg_take_time_and_bytes() -> None:
    """A share has 7850 / (4 - 1) numbers, rounded up: five go to the others through the server, one unmasks."""
    one = run({"protocol.secure_aggregation": LIGHT, "protocol.rounds": 1})
    share, request = 4 * 2617, 8 * 6
    setup_s = 0.5 + 5 * share / 1e6
    assert events_of(one, "masks_agreed")[0]["time_s"] == pytest.approx(setup_s)
    assert one.rounds[-1]["bytes_up"] == 6 * (5 * share + 4 * NUMBERS + share)
    assert one.rounds[-1]["bytes_down"] == 6 * (5 * share + 4 * NUMBERS + request)
    task_s = 0.25 + 0.8 + 0.5 + 2 * 4 * NUMBERS / 1e6
    assert events_of(one, "unmasked")[0]["time_s"] == pytest.approx(setup_s + task_s + 0.75 + (request + share) / 1e6)


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 3, "secure_aggregation": PAIRWISE}])
def test_updates_of_lost_clients_are_left_out_and_the_others_unmasked(protocol: dict[str, Any]) -> None:
    one = run({"protocol": {**protocol, "secure_aggregation": {**PAIRWISE, "threshold": 2}}, "world.dropout": 0.3})
    assert one.fates["dropped_out"] > 0
    assert one.fates["aggregated"] + one.fates["dropped_out"] + one.fates["below_threshold"] == sum(one.fates.values())
    fewer = [int(event["detail"].split()[0]) for event in events_of(one, "unmasked")]
    assert min(fewer) < 6
    assert sum(fewer) == one.fates["aggregated"]


def test_a_buffer_below_the_threshold_fails_and_the_cohort_is_drawn_again() -> None:
    secure = {**PAIRWISE, "threshold": 6}
    one = run({"protocol": {"kind": "sync", "rounds": 2, "secure_aggregation": secure}, "world.dropout": 0.1})
    assert one.fates["below_threshold"] > 0
    assert events_of(one, "not_unmasked")
    assert one.stopped == "all versions published"
    assert all(event["detail"].startswith("6 updates by 6") for event in events_of(one, "unmasked"))


def test_a_run_that_never_reaches_the_threshold_ends_with_its_reason() -> None:
    """All six clients must answer, half of the tasks drop out and some messages are lost."""
    secure = {**LIGHT, "threshold": 6}
    lossy = {"loss": {"kind": "independent", "probability": 0.1}, "retransmissions": 1, "mtu_bytes": 40_000}
    changes = {"protocol": {"kind": "sync", "rounds": 2, "secure_aggregation": secure}, "world.uplink": lossy}
    one = run({**changes, "world.dropout": 0.5})
    assert one.stopped == "too few clients answered to unmask any of the last 20 sums"
    assert one.fates["aggregated"] == 0


def test_lost_messages_of_the_setup_end_tasks() -> None:
    lossy = {"loss": {"kind": "independent", "probability": 0.2}, "retransmissions": 0, "mtu_bytes": 10**6}
    secure = {**PAIRWISE, "threshold": 2}
    one = run({"protocol": {"kind": "sync", "rounds": 4, "secure_aggregation": secure}, "world.uplink": lossy})
    started = {event["task"] for event in events_of(one, "download_started")}
    dropped = {event["task"] for event in events_of(one, "dropped_out")}
    assert dropped
    assert not dropped & started
    assert one.fates["dropped_out"] + one.fates["below_threshold"] >= len(dropped)


def test_clients_that_go_offline_drop_out_of_the_rounds() -> None:
    world = {"world.availability": {"kind": "alternating", "on_s": 9.0, "off_s": 3.0}}
    for protocol in ({**BUFFERED, "secure_aggregation": LIGHT}, {"kind": "sync", "rounds": 3}):
        secure = protocol.get("secure_aggregation", {**PAIRWISE, "threshold": 2})
        limited = {**protocol, "secure_aggregation": secure, "time_limit_s": 60.0}
        one = run({"protocol": limited, **world})
        assert one.fates["aggregated"] > 0
        assert events_of(one, "went_offline")
        one = simulate_clock(Scenario.read(BASE).override({"protocol": limited, **world}), 0)
        assert one.fates["aggregated"] > 0


def test_attackers_are_not_held_to_the_range_and_honest_clients_are() -> None:
    flip = {"attackers": 1, "attack": {"kind": "sign_flip", "factor": 1000.0}}
    secure = {**PAIRWISE, "range": 0.01}
    one = run({"protocol.secure_aggregation": secure, "threats": flip, "protocol.rounds": 1})
    assert "numbers clipped to the range" in events_of(one, "unmasked")[0]["detail"]
    protocol = {"protocol.secure_aggregation": {**PAIRWISE, "range": 10.0}, "protocol.rounds": 1}
    attacked, honest = models_of({**protocol, "threats": flip}), models_of(protocol)
    assert np.abs(attacked - honest).max() > 1.0


def test_an_update_that_is_not_finite_becomes_zero_since_no_server_could_reject_it() -> None:
    one = run({"protocol.secure_aggregation": PAIRWISE, "training.lr": 1e38, "protocol.rounds": 2})
    assert events_of(one, "zeroed")
    assert one.fates["rejected"] == 0


@pytest.mark.parametrize("protocol", [{**BUFFERED, "secure_aggregation": LIGHT}, {"kind": "sync", "rounds": 3}])
def test_the_same_seed_gives_the_same_tables(protocol: dict[str, Any], tmp_path: Any) -> None:
    protocol = {"secure_aggregation": PAIRWISE, **protocol}
    noise = {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 0.1}
    scenario = Scenario.read(BASE).override({"protocol": protocol, "privacy": noise, "world.dropout": 0.1, "seeds": 1})
    first, second = simulate(scenario), simulate(scenario)
    for name, table in first.tables.items():
        assert table.to_pandas().equals(second.tables[name].to_pandas()), name


def test_the_clock_alone_shows_the_same_timeline() -> None:
    scenario = Scenario.read(BASE).override({"protocol": {**BUFFERED, "secure_aggregation": LIGHT}})
    trained, timed = simulate_seed(scenario, 0), simulate_clock(scenario, 0)
    times = [[event["time_s"] for event in events_of(one, "unmasked")] for one in (trained, timed)]
    assert times[0] == times[1]


def test_rounding_that_eats_the_clip_norm_is_refused_in_words() -> None:
    noise = {"kind": "dp_fedavg", "clip_norm": 0.01, "noise_multiplier": 0.1}
    with pytest.raises(RunError, match=r"must be below the clip norm 0\.01: raise protocol\.secure_aggregation\.bits"):
        run({"protocol.secure_aggregation": {**PAIRWISE, "bits": 8}, "privacy": noise})


class Newest(Sync):
    """Rounds whose first update alone counts."""

    kind: str = "tests.simulation.test_secure_aggregation:Newest"  # type: ignore[assignment]

    def factors(self, samples: Any, staleness: Any, work: Any = None) -> Any:
        return np.eye(1, len(samples))[0]


def test_weights_of_ones_own_are_refused_as_the_field_knows_samples_and_staleness_alone() -> None:
    own = {"kind": "tests.simulation.test_secure_aggregation:Newest", "rounds": 2}
    Scenario.read(BASE).override({"protocol": own})
    with pytest.raises(ScenarioError, match="weighs updates by `factors` of its own"):
        Scenario.read(BASE).override({"protocol": {**own, "secure_aggregation": PAIRWISE}})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"defence.rule": {"kind": "median"}}, "defence.rule", "must be mean with protocol.secure_aggregation, got median"),
    ({"defence.detector": {"kind": "kardam"}}, "defence.detector", "got kardam: .*Proofs .* are out of scope"),
    ({"defence.strikes": {"threshold": 2}}, "defence.strikes", "must be null"),
    (
        {"protocol.check_norms": True, "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0}},
        "protocol.check_norms",
        "must be null or false",
    ),
    ({"compression": {"kind": "quantised"}}, "compression.kind", "secure_aggregation.bits rounds them"),
    ({"algorithm": {"kind": "scaffold"}}, "algorithm.kind", "must be fedavg"),
    ({"evaluation.record": "digests"}, "evaluation.record", "a recording holds single updates"),
    ({"evaluation.aggregates": True}, "evaluation.aggregates", "must be false"),
    ({"evaluation.audit": {}}, "evaluation.audit", "must be null"),
    ({"world.uplink.server_bandwidth_bps": 1e6}, "world.uplink.server_bandwidth_bps", "must be .inf"),
    ({"protocol.partial_work": "work"}, "protocol.partial_work", "must be whole"),
    ({"protocol.secure_aggregation": {**PAIRWISE, "threshold": 7}}, "protocol.secure_aggregation.threshold", "1..6"),
    ({"protocol": {**BUFFERED, "secure_aggregation": PAIRWISE}}, "protocol.secure_aggregation.kind", "lightsecagg"),
    (
        {"protocol": {"kind": "fedasync", "rounds": 2, "secure_aggregation": LIGHT}},
        "protocol.secure_aggregation",
        "a sum of one is that update",
    ),
    (
        {"protocol.selection": {"kind": "poisson"}, "protocol.participants": 4},
        "protocol.selection",
        "must draw a fixed number of clients .* a cohort of known size",
    ),
    (
        {"protocol.open": {"kind": "quorum", "share": 0.5}},
        "protocol.secure_aggregation.threshold",
        "at most the 3 updates with which a buffer opens, .* got 4 of 6",
    ),
    (
        {"threats": {"attackers": 1, "attack": {"kind": "wrong_length"}}},
        "threats.attack",
        "of another length fits into no sum",
    ),
    (
        {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0, "adaptive": {}}},
        "privacy.adaptive",
        "bits are sent one by one",
    ),
]


@pytest.mark.parametrize(("changes", "field", "message"), REFUSED, ids=[one[1] for one in REFUSED])
def test_what_needs_single_updates_is_refused_by_name(changes: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as raised:
        Scenario.read(BASE).override({"protocol.secure_aggregation": PAIRWISE, **changes})
    assert field in [fault.field for fault in raised.value.faults]


@pytest.mark.parametrize(
    ("share", "members", "needed"), [(0.5, 5, 3), (0.6, 4, 3), (0.7, 10, 7), (0.7, 3, 3), (2, 9, 2)]
)
def test_no_sum_is_unmasked_by_fewer_clients_than_the_threshold_states(share: float, members: int, needed: int) -> None:
    protocol = Scenario.read(BASE).override({"protocol.secure_aggregation": {**PAIRWISE, "threshold": share}}).protocol
    assert protocol.secure_aggregation is not None
    assert protocol.secure_aggregation.needed(members) == needed


def test_answers_of_a_buffer_that_failed_count_where_they_tell_of_the_sum() -> None:
    """Each answer of LightSecAgg is a combination of the parts of the masks' sum; shares of `pairwise` below the
    threshold tell nothing."""
    lossy = {"loss": {"kind": "independent", "probability": 0.2}, "retransmissions": 0, "mtu_bytes": 10**6}
    private = {"kind": "dp_fedavg", "noise_multiplier": 1.0}
    for secure, tells in (({**LIGHT, "threshold": 5}, True), ({**PAIRWISE, "threshold": 5}, False)):
        changes = {"protocol": {"kind": "sync", "rounds": 3, "secure_aggregation": secure}, "privacy": private}
        one = run({**changes, "world.uplink": lossy})
        assert events_of(one, "not_unmasked")
        tasks, rows = one.tasks.to_pandas(), SeedLedger(one).ledger.to_pandas()
        server = rows[(rows["adversary"] == "server") & (rows["holder"] == "client")].set_index("client")
        failed = tasks[(tasks["fate"] == "below_threshold") & tasks["uploaded_s"].notna()].groupby("client").size()
        summed = tasks[tasks["fate"] == "aggregated"].groupby("client").size()
        for client in range(6):
            assert server.loc[client, "releases"] == summed.get(client, 0) + (failed.get(client, 0) if tells else 0)


def test_sums_that_do_not_fit_into_the_field_are_told() -> None:
    secure = {**PAIRWISE, "bits": 20, "range": 0.001}
    private = {"kind": "dp_fedavg", "noise_multiplier": 50.0}
    one = run({"protocol.secure_aggregation": secure, "privacy": private})
    assert any("were too large for the field" in note for note in one.notes)
