"""Clients that stop at their privacy budget, in whole seeds; the ledger stays within it for every adversary."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.privacy import Contribution, DpFedAvg, Mechanisms, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.scheme import Scheme
from asyncfl.results.run_tables import clients_table, seed_summary
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.world.availability import AlwaysPresent

Z = 5.0
BUFFERED = {"kind": "buffered", "rounds": 40, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
SYNC = {"kind": "sync", "rounds": 40}


def dp_fedavg(uploads: float) -> dict[str, Any]:
    """A budget that is spent by just so many uploads."""
    epsilon = float(exact_epsilon(uploads / Z**2, 1e-5))
    return {"kind": "dp_fedavg", "noise_multiplier": Z, "neighbours": "zero_out", "stop_at": {"epsilon": epsilon}}


def sent(run: SeedRun) -> list[int]:
    """Uploads of each client that were begun."""
    events = run.events.to_pandas()
    begun = events[events["kind"] == "upload_started"]["client"]
    return np.bincount(begun, minlength=5).tolist()


def spent_events(run: SeedRun) -> list[dict[str, Any]]:
    return [row for row in run.events.to_pylist() if row["kind"] == "budget_spent"]


@pytest.mark.parametrize("protocol", [SYNC, BUFFERED], ids=["sync", "buffered"])
def test_each_client_uploads_until_its_budget_is_spent(scenario: Scenario, protocol: dict[str, Any]) -> None:
    run = simulate_seed(scenario.override({"privacy": dp_fedavg(4), "protocol": protocol}), 0)
    assert run.stopped == "every client has spent its budget"
    assert sent(run) == [4] * 5
    assert run.fates["aggregated"] == sum(run.fates.values()) == 20
    events = run.events.to_pylist()
    assert events[-1]["kind"] == "stopped"
    assert events[-1]["detail"] == run.stopped
    for row in spent_events(run):
        begun = [one for one in events if one["kind"] == "upload_started" and one["client"] == row["client"]]
        assert row["time_s"] == begun[-1]["time_s"] == run.spent[row["client"]]
        later = [one for one in events if one["seq"] > row["seq"] and one["client"] == row["client"]]
        assert {one["kind"] for one in later} <= {"uploaded", "aggregated"}, "it answers no more"
    assert sorted(run.spent) == [0, 1, 2, 3, 4]
    epsilon = exact_epsilon(4 / Z**2, 1e-5)
    more = exact_epsilon(5 / Z**2, 1e-5)
    said = f"epsilon {epsilon:.6g} of {epsilon:g} spent on 4 uploads, one more would make it {more:.6g}"
    assert {row["detail"] for row in spent_events(run)} == {said}


def test_a_federation_goes_on_with_those_that_can_afford_it(scenario: Scenario) -> None:
    """Claims of 1, 1, 1, 1 and 0.2 per upload: the last client can afford five times as many uploads."""
    budgets = {"kind": "adaptive", "adjustment": "none", "budgets": [1, 1, 1, 1, 0.2], "sensitivity": "2M"}
    stop_at = {"epsilon": 2.0, "accountant": "naive"}
    changes = {"privacy": {**budgets, "stop_at": stop_at}, "protocol.rounds": 6}
    run = simulate_seed(scenario.override(changes), 0)
    assert run.stopped == "all versions published"
    assert [row["participants"] for row in run.rounds] == [0, 5, 5, 1, 1, 1, 1]
    assert sorted(run.spent) == [0, 1, 2, 3]
    table = clients_table(run).to_pandas()
    assert table["budget_spent_s"].isna().tolist() == [False] * 4 + [True]
    assert table["budget_spent_s"][0] == run.spent[0]
    said = seed_summary(run)["budgets"]
    assert said == {"spent": 4, "first_s": min(run.spent.values()), "last_s": max(run.spent.values())}


def test_a_client_that_cannot_afford_one_upload_is_never_asked(scenario: Scenario) -> None:
    budgets = {"kind": "adaptive", "adjustment": "none", "budgets": [1, 9, 1, 1, 9], "sensitivity": "2M"}
    stop_at = {"epsilon": 2.0, "accountant": "naive"}
    run = simulate_seed(scenario.override({"privacy": {**budgets, "stop_at": stop_at}}), 0)
    assert sent(run) == [2, 0, 2, 2, 0]
    assert run.stopped == "every client has spent its budget"
    assert run.spent[1] == run.spent[4] == 0.0
    first = run.events.to_pylist()[:2]
    assert [(row["kind"], row["client"], row["task"]) for row in first] == [
        ("budget_spent", 1, -1),
        ("budget_spent", 4, -1),
    ]
    assert first[0]["detail"] == "epsilon 0 of 2 spent on 0 uploads, one more would make it 9"


def test_adaptive_budgets_are_asked_for_before_they_are_spent(scenario: Scenario) -> None:
    """Sums of claims, each of the budget that the losses so far have led to."""
    scheme = {"kind": "adaptive", "budgets": [50] * 5, "k": 20, "sensitivity": "2M/n"}
    stopping = scenario.override(
        {"privacy": {**scheme, "stop_at": {"epsilon": 290.0, "accountant": "naive"}}, "protocol.rounds": 20}
    )
    run = simulate_seed(stopping, 0)
    assert run.stopped == "every client has spent its budget"
    endless = simulate_seed(scenario.override({"privacy": scheme, "protocol.rounds": 20}), 0)
    for client in range(5):
        mine = [one.release.epsilon for one in run.uploads if one.client == client]
        theirs = [one.release.epsilon for one in endless.uploads if one.client == client]
        assert sum(mine) <= 290
        if len(mine) <= len([row for row in run.rounds if row["participants"] == 5]):
            # As long as all take part both runs are the same, and the next one would have been too much.
            assert theirs[: len(mine)] == mine
            assert sum(theirs[: len(mine) + 1]) > 290


def test_the_clock_alone_stops_them_too(scenario: Scenario) -> None:
    stopping = scenario.override({"privacy": dp_fedavg(3), "protocol": BUFFERED})
    trained, timed = simulate_seed(stopping, 0), simulate_clock(stopping, 0)
    assert trained.events.to_pandas().equals(timed.events.to_pandas())
    assert timed.spent == trained.spent


def test_the_reason_to_stop_counts_clients_with_spent_budgets(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client 4 is offline for ever; the others spend their budgets."""
    monkeypatch.setattr(AlwaysPresent, "online", lambda self, client, time_s: client != 4)
    for protocol in (SYNC, BUFFERED):
        run = simulate_seed(scenario.override({"privacy": dp_fedavg(2), "protocol": protocol}), 0)
        assert run.stopped == "nothing can happen any more: no client can come, 4 of 5 have spent their budget"
        assert sum(run.fates.values()) == run.fates["aggregated"] == 8
        assert run.events["kind"].to_pylist()[-1] == "stopped"


FEDASYNC = {"kind": "fedasync", "rounds": 60, "in_flight": 3}
PROTOCOLS = {"sync": SYNC, "buffered": BUFFERED, "fedasync": FEDASYNC}
CLIENT = {"kind": "dp_fedavg", "noise_multiplier": 5.0}
SERVER = {"kind": "dp_fedavg", "noise_multiplier": 5.0, "noise_at": "server"}
ADAPTIVE = {**SERVER, "adaptive": {}}
GAUSSIAN = {"kind": "gaussian", "epsilon": 1.0}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}
UPLOADED = {
    "client": CLIENT,
    "local": {"kind": "local_gaussian", "epsilon": 2.0},
    "adaptive": {"kind": "adaptive", "adjustment": "none", "budgets": [2] * 5, "sensitivity": "2M"},
    "nbafl": {"kind": "nbafl", "epsilon": 11, "exposures": 2, "sensitivity": "2C"},
    "laplace": {"kind": "mechanisms", "client": LAPLACE},
    "both": {"kind": "mechanisms", "client": GAUSSIAN, "server": GAUSSIAN},
}
PUBLISHED = {
    "client": CLIENT,
    "server": SERVER,
    "bits": ADAPTIVE,
    "gaussian": {"kind": "mechanisms", "server": GAUSSIAN},
    "laplace": {"kind": "mechanisms", "server": LAPLACE},
}


def run_of(scenario: Scenario, privacy: dict[str, Any], stop_at: dict[str, Any], **changes: Any) -> SeedRun:
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    return simulate_seed(scenario.override({"privacy": {**privacy, "stop_at": stop_at}, **changes}), 0)


def lossy(loss: float, **tap: Any) -> dict[str, Any]:
    """Links with one packet per message, so that whole messages are lost."""
    return {
        "world__uplink__loss": {"kind": "independent", "probability": loss},
        "world__uplink__retransmissions": 0,
        "world__tap": tap,
        "world__uplink__mtu_bytes": 10**6,
        "world__downlink": {"mtu_bytes": 10**6},
    }


def row_of(run: SeedRun, adversary: str, accountant: str = "exact") -> np.ndarray:
    """(clients,) epsilons."""
    table = SeedLedger(run).ledger.to_pandas()
    rows = table[(table["holder"] == "client") & (table["adversary"] == adversary)]
    return rows[f"{accountant}_epsilon"].to_numpy()


def check_kept(run: SeedRun, adversary: str, budget: float, accountant: str = "exact") -> None:
    assert 0 < row_of(run, adversary, accountant).max() <= budget * (1 + 1e-9)
    assert run.spent


def rotated(schemes: Iterable[str], others: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each scheme with each of the others, under one protocol in turn."""
    protocols = list(PROTOCOLS)
    return [(one, two, protocols[(i + j) % 3]) for i, one in enumerate(schemes) for j, two in enumerate(others)]


@pytest.mark.parametrize(("scheme", "adversary", "protocol"), rotated(UPLOADED, ("server", "eavesdropper", "both")))
def test_no_epsilon_of_uploads_exceeds_the_budget(
    scenario: Scenario, adversary: str, scheme: str, protocol: str
) -> None:
    stop_at = {"epsilon": 4.0, "adversary": adversary, "of": "all"}
    changes = {**lossy(0.3, uplink=True, downlink=True, packet_loss=0.3), "training.gradient_clip": 1.0}
    check_kept(run_of(scenario, UPLOADED[scheme], stop_at, protocol=PROTOCOLS[protocol], **changes), adversary, 4.0)


@pytest.mark.parametrize("protocol", [SYNC, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize("accountant", ["rdp", "basic", "naive"])
def test_no_epsilon_of_another_accountant_exceeds_the_budget(
    scenario: Scenario, protocol: dict[str, Any], accountant: str
) -> None:
    """For every adversary, over links that lose some of the uploads."""
    changes = {**lossy(0.3, uplink=True, packet_loss=0.2), "protocol": {**protocol, "rounds": 60}}
    stop_at = {"epsilon": 4.0, "accountant": accountant}
    run = run_of(scenario, {**CLIENT, "neighbours": "zero_out"}, stop_at, **changes)
    for adversary in ("server", "eavesdropper", "both"):
        check_kept(run, adversary, 4.0, accountant)
    # Lost uploads count as well, since they may have been overheard.
    assert max(sent(run)) == min(sent(run)) > 0


@pytest.mark.parametrize(("scheme", "of", "protocol"), rotated(PUBLISHED, ("models", "all")))
def test_no_epsilon_of_overheard_models_exceeds_the_budget(
    scenario: Scenario, of: str, scheme: str, protocol: str
) -> None:
    stop_at = {"epsilon": 4.0, "adversary": "eavesdropper", "of": of}
    changes = lossy(0.2, downlink=True)
    run = run_of(scenario, PUBLISHED[scheme], stop_at, protocol=PROTOCOLS[protocol], **changes)
    check_kept(run, "eavesdropper", 4.0)


def test_epsilon_of_models_of_single_updates_by_hand(scenario: Scenario) -> None:
    """z = 5 on 2 S: n models of a client's own updates are n releases of multiplier 2.5, all of which are caught."""
    budget = float(exact_epsilon(4 / 2.5**2, 1e-5))
    stop_at = {"epsilon": budget, "adversary": "eavesdropper", "of": "models"}
    run = run_of(scenario, SERVER, stop_at, protocol=SYNC, world__tap={"downlink": True})
    # The model made of the fourth updates is sent to no client, since all have spent their budgets.
    assert [row["participants"] for row in run.rounds] == [0, 5, 5, 5, 5]
    assert row_of(run, "eavesdropper") == pytest.approx([float(exact_epsilon(3 / 2.5**2, 1e-5))] * 5)
    assert row_of(run, "public") == pytest.approx([budget] * 5)


@pytest.mark.parametrize("scheme", ["client", "server"])
@pytest.mark.parametrize(("adversary", "of"), [("public", "models"), ("public", "all"), ("curious", "all")])
def test_budgets_hold_against_the_public_and_curious_clients(
    scenario: Scenario, adversary: str, of: str, scheme: str
) -> None:
    budget = 4.0
    stop_at = {"epsilon": budget, "adversary": adversary, "of": of}
    run = run_of(scenario, {**PUBLISHED[scheme], "curious": [0]}, stop_at, protocol=BUFFERED)
    epsilons = row_of(run, adversary)
    assert 0 < epsilons.max() <= budget * (1 + 1e-9)
    assert len(epsilons) == (4 if adversary == "curious" else 5), "of the coalition itself there is nothing to find out"
    assert run.spent


def test_budgets_against_curious_clients_include_models_to_score(scenario: Scenario) -> None:
    stop_at = {"epsilon": 8.0, "adversary": "curious", "of": "all"}
    run = run_of(scenario, {**CLIENT, "curious": [0, 1], "scores": {"std": 20.0}}, stop_at, **SCORED)
    assert 0 < row_of(run, "curious").max() <= 8.0 * (1 + 1e-9)
    with pytest.raises(ScenarioError, match="no client could upload even once"):
        run_of(scenario, {**SERVER, "curious": [0, 1], "scores": {"std": 20.0}}, stop_at, **SCORED)


def test_budgets_count_missed_uploads_as_overheard(scenario: Scenario) -> None:
    stop_at = {"epsilon": float(exact_epsilon(3 / 2.5**2, 1e-5)), "adversary": "eavesdropper"}
    run = run_of(scenario, CLIENT, stop_at, world__tap={"uplink": True, "packet_loss": 1.0})
    assert [row["participants"] for row in run.rounds] == [0, 5, 5, 5]
    assert row_of(run, "eavesdropper").tolist() == [0.0] * 5
    assert any("counts as overheard" in note for note in run.notes)


SCORED = {
    "protocol": {**BUFFERED, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 5}},
    "defence": {"detector": {"kind": "safl"}},
}


@pytest.mark.parametrize("adversary", ["server", "both", "eavesdropper"])
@pytest.mark.parametrize("std", [0.02, 20.0])
def test_noised_scores_are_charged_before_they_are_given(scenario: Scenario, adversary: str, std: float) -> None:
    """With little noise one answer of five models would be worth more than all of the budget: none is given."""
    private = {**CLIENT, "scores": {"std": std}}
    tap = {"uplink": True, "downlink": True, "scoring": True}
    run = run_of(scenario, private, {"epsilon": 16.0, "adversary": adversary}, **SCORED, world__tap=tap)
    assert 0 < row_of(run, adversary).max() <= 16 * (1 + 1e-9)
    asked = [row["detail"] for row in run.events.to_pylist() if row["kind"] == "scored"]
    assert asked
    answered = [said for said in asked if said != "no answer"]
    assert not answered if std == 0.02 else answered


CONTEXT = PrivacyContext(clients=6, participants=3, rounds=10, smallest_samples=100, exposures=1)
STATED = [
    DpFedAvg(noise_multiplier=1.5, noise_at="server"),
    DpFedAvg(noise_multiplier=1.5, noise_at="server", neighbours="zero_out"),
    Mechanisms(server=GAUSSIAN),
    Mechanisms(server=LAPLACE),
]


@given(st.sampled_from(STATED), st.lists(st.tuples(st.integers(0, 5), st.floats(1e-3, 2.0)), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_mix_of_updates_is_hidden_less_than_the_scheme_states(
    scheme: Scheme, entered: list[tuple[int, float]]
) -> None:
    stated = scheme.model_multiplier(CONTEXT)
    assert stated is not None
    made = scheme.model_noise(CONTEXT, 1.0, [Contribution(client, 100, weight=weight) for client, weight in entered])
    scale = made.std / (math.sqrt(2) if made.distribution == "laplace" else 1)
    assert scale / made.sensitivity >= stated * (1 - 1e-9)
