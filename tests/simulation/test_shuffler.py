"""The trusted shuffler: its event, its time on the clock, and an unchanged mean."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.protocol import Server
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Collected, Publish
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun

ADAPTIVE = {"kind": "adaptive", "budgets": [1, 1, 2, 2, 3]}


def shuffled(scenario: Scenario, shuffler: dict[str, Any] | None, **changes: Any) -> Scenario:
    return scenario.override({"privacy": {**ADAPTIVE, "shuffler": shuffler}, **changes})


@pytest.fixture
def direct(scenario: Scenario) -> SeedRun:
    return simulate_seed(shuffled(scenario, None), 0)


@pytest.fixture
def passed(scenario: Scenario) -> SeedRun:
    return simulate_seed(shuffled(scenario, {"swaps": 3, "seconds": 2.5}), 0)


def of(run: SeedRun, kind: Kind) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = select(run.events, kinds=[kind]).to_pylist()
    return rows


def models(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> tuple[list[Any], list[Any]]:
    """Return the models that the server collected in each version, and those it published."""
    handed, published = [], []
    handle = Server.handle

    def spy(server: Server, message: Any) -> Any:
        if isinstance(message, Collected):
            handed.append(np.array(message.models))
        actions = handle(server, message)
        published.extend(np.array(one.model) for one in actions if isinstance(one, Publish))
        return actions

    monkeypatch.setattr(Server, "handle", spy)
    simulate_seed(scenario, 0)
    monkeypatch.undo()
    return handed, published


def test_each_version_s_cohort_passes_the_node_once(passed: SeedRun, direct: SeedRun) -> None:
    events = of(passed, Kind.SHUFFLED)
    assert len(events) == 3
    assert {row["detail"] for row in events} == {"5 updates, 3 swaps in each layer"}
    assert {(row["client"], row["task"]) for row in events} == {(-1, -1)}, "shuffling belongs to no client"
    assert [row["version"] for row in events] == [0, 1, 2]
    assert of(direct, Kind.SHUFFLED) == []


def test_the_node_waits_for_the_last_of_the_cohort_and_then_takes_its_time(passed: SeedRun, direct: SeedRun) -> None:
    arrived = of(passed, Kind.UPLOADED)
    published = [row["time_s"] for row in of(passed, Kind.PUBLISHED)]
    for version, event in enumerate(of(passed, Kind.SHUFFLED)):
        last = max(row["time_s"] for row in arrived if row["version"] == version)
        assert event["time_s"] == pytest.approx(last + 2.5)
        assert published[version + 1] == pytest.approx(event["time_s"])
    # Nothing else on the clock is touched: each version comes as much later as cohorts have passed.
    waited = np.array(published) - [row["time_s"] for row in of(direct, Kind.PUBLISHED)]
    assert waited == pytest.approx([0, 2.5, 5, 7.5])


def test_a_shuffler_without_delay_does_not_change_the_clock(scenario: Scenario, direct: SeedRun) -> None:
    run = simulate_seed(shuffled(scenario, {"swaps": 3}), 0)
    with_it, without = (one.events.to_pandas().drop(columns="seq") for one in (run, direct))
    others = with_it[with_it["kind"] != "shuffled"].reset_index(drop=True)
    assert len(others) == len(with_it) - 3
    words = {"kind": str, "detail": str}
    pd.testing.assert_frame_equal(others.astype(words), without.astype(words))


def test_shuffling_does_not_change_the_mean(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    once = {"protocol.rounds": 1}
    (rows,), (plain,) = models(monkeypatch, shuffled(scenario, None, **once))
    (mixed,), (other,) = models(monkeypatch, shuffled(scenario, {"swaps": 3}, **once))
    assert mixed.shape == rows.shape == (5, len(plain))
    assert not np.array_equal(mixed, rows), "layers have changed places"
    assert np.sort(mixed, axis=0).tolist() == np.sort(rows, axis=0).tolist(), "each parameter's values are the same"
    np.testing.assert_allclose(other, plain, rtol=0, atol=1e-6)


def test_a_run_that_ends_while_a_cohort_is_at_the_node_leaves_it_there(scenario: Scenario) -> None:
    run = simulate_seed(shuffled(scenario, {"swaps": 3, "seconds": 1e6}, **{"protocol.time_limit_s": 10.0}), 0)
    assert of(run, Kind.SHUFFLED) == []
    assert [row["version"] for row in run.rounds] == [0]
    assert run.fates["unfinished"] == 5
