"""Clients that stop at their privacy budget, in whole seeds, synchronous and asynchronous."""

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.federation import SeedRun, clients_table, seed_summary
from asyncfl.federation.seed_ledger import SeedLedger
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.world.availability import AlwaysPresent

Z = 5.0
BUFFERED = {"kind": "buffered", "rounds": 40, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
SYNC = {"kind": "sync", "rounds": 40}


def dp_fedavg(uploads: float, **stop_at: Any) -> dict[str, Any]:
    """A budget that is spent by just so many uploads."""
    epsilon = float(exact_epsilon(uploads / Z**2, 1e-5))
    return {
        "kind": "dp_fedavg",
        "noise_multiplier": Z,
        "neighbours": "zero_out",
        "stop_at": {"epsilon": epsilon, **stop_at},
    }


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


@pytest.mark.parametrize("protocol", [SYNC, BUFFERED], ids=["sync", "buffered"])
@pytest.mark.parametrize("accountant", ["exact", "rdp", "basic", "naive"])
def test_the_ledger_never_exceeds_the_budget(scenario: Scenario, protocol: dict[str, Any], accountant: str) -> None:
    """For every adversary, over links that lose some of the uploads."""
    stop_at = {"epsilon": 4.0, "accountant": accountant}
    private = scenario.override(
        {
            "privacy": {"kind": "dp_fedavg", "noise_multiplier": Z, "neighbours": "zero_out", "stop_at": stop_at},
            "protocol": protocol,
            "world.uplink.loss": {"kind": "independent", "probability": 0.3},
            "world.uplink.retransmissions": 0,
            "world.tap": {"uplink": True, "packet_loss": 0.2},
            "protocol.rounds": 60,
        }
    )
    run = simulate_seed(private, 0)
    assert run.stopped == "every client has spent its budget"
    ledger = SeedLedger(run).ledger.to_pandas()
    column = f"{accountant}_epsilon"
    assert ledger[column][ledger["holder"] == "client"].max() <= 4.0 + 1e-9
    # Lost uploads count as well, since they may have been overheard.
    assert max(sent(run)) == min(sent(run)) > ledger["releases"][ledger["adversary"] == "server"].min()


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


@pytest.mark.parametrize(
    ("privacy", "field", "words"),
    [
        ({"kind": "none", "stop_at": {"epsilon": 5}}, "privacy.stop_at", "no client could upload even once"),
        ({"kind": "local_gaussian", "epsilon": math.inf, "stop_at": {"epsilon": 5}}, "privacy.stop_at", "no client"),
        ({"kind": "dp_fedavg", "noise_multiplier": 0, "stop_at": {"epsilon": 5}}, "privacy.stop_at", "no client"),
        (
            {"kind": "dp_fedavg", "noise_multiplier": 1, "neighbours": "zero_out", "stop_at": {"epsilon": 2}},
            "privacy.stop_at.epsilon",
            "must be at least 4.37722",
        ),
        (
            {"kind": "adaptive", "budgets": [1, 2], "stop_at": {"epsilon": 2}},
            "privacy.budgets",
            "must be one for each of the 5 clients",
        ),
    ],
)
def test_budgets_that_allow_no_upload_are_one_fault(
    tiny: dict[str, Any], privacy: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.read({**tiny, "privacy": privacy})
    (fault,) = error.value.faults
    assert fault.field == field
    assert words in fault.message
