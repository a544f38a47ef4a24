"""L measured on the clock before training."""

from __future__ import annotations

from typing import Any

import pytest

from asyncfl.federation import SeedRun, clients_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

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


def test_seeds_with_one_clock_assume_one_number_of_exposures(scenario: Scenario) -> None:
    runs = [simulate_seed(scenario.override(TAPPED | {"seeding.clock": 3, "seeding.data": 3}), seed) for seed in (0, 1)]
    assert runs[0].resolved.calibration == runs[1].resolved.calibration
    assert most_overheard(runs[0]) == most_overheard(runs[1])


def test_measured_exposures_are_what_the_tap_catches_most(scenario: Scenario) -> None:
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
