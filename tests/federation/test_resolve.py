"""Exposures L measured on the clock before training."""

import sys
from typing import Any

import pytest

from asyncfl.federation import SeedRun, clients_table
from asyncfl.federation.prepare import resolve
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed

TAPPED: dict[str, Any] = {
    "protocol.rounds": 8,
    "protocol.participants": 2,
    "world.tap": {"uplink": True, "packet_loss": 0.0},
    "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": {"kind": "measured", "replicates": 9}},
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
}


def most_overheard(run: SeedRun) -> int:
    return max(run.traffic.overheard_up.values())


@pytest.mark.parametrize("clock", [None, 0, 7])
def test_replicates_have_clocks_of_their_own_whatever_the_seed_of_the_clock(
    scenario: Scenario, clock: int | None
) -> None:
    run = simulate_seed(scenario.override(TAPPED | {"seeding.clock": clock}), 0)
    assert len(set(run.resolved.calibration)) > 1
    assert run.context is not None
    assert run.context.exposures == max(run.resolved.calibration)


def test_measured_exposures_are_the_most_overheard_clients_uploads(scenario: Scenario) -> None:
    tapped = scenario.override(
        {
            "world.tap": {"uplink": True, "packet_loss": 0.0},
            "privacy": {"kind": "nbafl", "epsilon": 60, "exposures": {"kind": "measured", "replicates": 2}},
        }
    )
    run = simulate_seed(tapped, 0)
    assert run.resolved.calibration == (3, 3)
    assert run.context is not None
    assert run.context.exposures == 3
    assert clients_table(run)["exposures_up"].to_pylist() == [3] * 5


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
