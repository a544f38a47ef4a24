"""Runs before a run: exposures measured on the clock, references, and data that runs share."""

import sys
from typing import Any

import pytest

from asyncfl.federation import clients_table
from asyncfl.federation.prepare import resolve
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, prepared, simulate_clock, simulate_seed

TAPPED: dict[str, Any] = {
    "protocol.rounds": 8,
    "protocol.participants": 2,
    "world.tap": {"uplink": True, "packet_loss": 0.0},
    "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": {"kind": "measured", "replicates": 9}},
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
}


@pytest.mark.parametrize("clock", [None, 0, 7])
def test_replicates_have_clocks_of_their_own_whatever_the_seed_of_the_clock(
    scenario: Scenario, clock: int | None
) -> None:
    run = simulate_seed(scenario.override(TAPPED | {"seeding.clock": clock}), 0)
    assert len(set(run.resolved.calibration)) > 1
    assert run.context is not None
    assert run.context.exposures == max(run.resolved.calibration)


@pytest.mark.parametrize(
    ("quantile", "exposures"),
    [(None, 9), (1.0, 9), (0.75, 4), (0.5, 3), (0.51, 4), (0.001, 2), (0.25, 2), (3.75e-10, 2), (2.25e-10, 1)],
)
def test_the_quantile_of_replicate_counts_is_rounded_up(
    scenario: Scenario, quantile: float | None, exposures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1, 2, 3, 4, 9 the quarters are 2, 3, 4; where one falls on a count, to 1e-9, it is that count."""
    measured = {"kind": "measured", "replicates": 5, "quantile": quantile}
    asked = scenario.override({**TAPPED, "privacy.exposures": measured})
    monkeypatch.setattr(sys.modules[resolve.__module__], "_overheard", lambda *_: (4, 1, 9, 3, 2))
    found = resolve(asked, 3, SimulatedRuns())
    assert (found.exposures, found.calibration, found.seed) == (exposures, (4, 1, 9, 3, 2), 3)
    plain = resolve(scenario, 3, SimulatedRuns())
    assert plain.calibration == ()


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
    run = simulate_seed(measured.override({"privacy.stop_at": None}), 0)
    assert (run.resolved.calibration, run.context.exposures) == ((3, 3), 3)  # type: ignore[union-attr]
    assert clients_table(run)["exposures_up"].to_pylist() == [3] * 5
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
