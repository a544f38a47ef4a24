"""Runs on which other runs depend."""

from typing import Any

import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, prepared, simulate_clock, simulate_seed
from asyncfl.trace.query import select

MEASURED: dict[str, Any] = {
    "world.tap": {"uplink": True},
    "privacy": {
        "kind": "nbafl",
        "epsilon": 60.0,
        "clip_norm": 5.0,
        "exposures": {"kind": "measured", "replicates": 2},
        "stop_at": {"epsilon": 90.0, "accountant": "naive"},
    },
}


class Asked(SimulatedRuns):
    """Counts its calls, and reports one exposure."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        self.asked += 1
        return 1


def test_prior_runs_are_requested_from_the_callers_object(scenario: Scenario) -> None:
    measured = scenario.override(MEASURED)
    for begins in (prepared, simulate_seed, simulate_clock):
        prior = Asked()
        begins(measured, 0, prior=prior)  # type: ignore[operator]
        assert prior.asked == 2
    assert prepared(measured, 0).resolved.calibration == (3, 3)
    alone, given = simulate_clock(measured, 0), simulate_clock(measured, 0, Asked())
    assert alone.spent is not None
    assert given.spent is not None
    assert len(given.spent) == 5 > len(alone.spent), "less noise is asked for where less is overheard"


@pytest.mark.parametrize("kind", ["label_flip", "backdoor", "evaluator_bait"])
def test_runs_share_samples_that_none_of_them_changes(scenario: Scenario, kind: str) -> None:
    attacked = scenario.override({"threats": {"attack": {"kind": kind}, "attackers": 0.4}})
    shared = SimulatedRuns()
    data = prepared(scenario, 0, shared).data
    before = [array.tobytes() for array in (data.images, data.labels, data.test_images, data.test_labels)]
    both = [simulate_seed(attacked, 0, prior=prior) for prior in (shared, None)]
    assert prepared(attacked, 0, shared).data is data
    assert [array.tobytes() for array in (data.images, data.labels, data.test_images, data.test_labels)] == before
    assert repr([list(run.rounds) for run in both[:1]]) == repr([list(run.rounds) for run in both[1:]])
    for other, seed in ((scenario, 1), (scenario.override({"data.partition": {"kind": "dirichlet"}}), 0)):
        assert prepared(other, seed, shared).data is not data


@pytest.mark.parametrize("processors", [None, 2.0])
def test_a_client_that_goes_offline_in_training_has_sent_nothing(scenario: Scenario, processors: float | None) -> None:
    away = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 2.0}, "off_s": 1.0}
    changes = {"world.availability": away, "protocol.time_limit_s": 60, "world.processors": processors}
    events = simulate_clock(scenario.override({**changes, "protocol.rounds": 20}), 0).events
    assert set(select(events, kinds=["training_started"])["bytes"].to_pylist()) == {-1}
    last: dict[int, str] = {}
    gone = 0
    for row in events.to_pylist():
        if row["kind"] == "went_offline" and last.get(row["task"]) == "training_started":
            assert (row["bytes"], row["attempt"]) == (-1, -1)
            gone += 1
        last[row["task"]] = row["kind"]
    assert gone
