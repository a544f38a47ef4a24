"""Worlds fitted to logs of rounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import RunError
from asyncfl.extras.calibration.round_fit import LoggedFederation, RoundFit, fit_rounds, moments_of
from asyncfl.extras.calibration.round_log import RoundLog
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

SCENARIO: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 100, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [8]},
    "protocol": {
        "kind": "sync",
        "rounds": 14,
        "open": {"kind": "poll", "at_least": 3, "poll_s": 0.05},
        "late": "carry",
        "per_client": 1,
    },
}
TRUTH = RoundFit({None: 8.0, (0, 1): 24.0}, sigma=0.15, between_s=0.4, processors=None)
"""Trainings of .8 s, those of clients 0 and 1 of 2.4 s: the scenario's devices take .001 s per sample."""


def logged(truth: RoundFit, **changes: Any) -> LoggedFederation:
    """A federation whose eight runs happened in the world of `truth`, with seeds that no fit uses. `changes`: of its
    scenario."""
    scenario = Scenario.read(SCENARIO).override(changes)
    groups = tuple(group for group in truth.factors if group is not None)
    inside = scenario.override({"world": truth.world(scenario).model_dump(mode="json")})
    logs = [RoundLog.of_run(simulate_clock(inside, seed), groups) for seed in range(70, 78)]
    return LoggedFederation("log.csv", scenario, tuple(logs))


@pytest.fixture(scope="module")
def found() -> RoundFit:
    """What is fitted to a world in which each client has a processor of its own."""
    return fit_rounds([logged(TRUTH)], skip=1)


def test_speeds_of_groups_are_found_again(found: RoundFit) -> None:
    assert found.factors[None] == pytest.approx(8.0, rel=0.2)
    assert found.factors[0, 1] == pytest.approx(24.0, rel=0.2)


def test_a_fitted_world_predicts_another_setting(found: RoundFit) -> None:
    true, asked = (logged(truth, **{"protocol.open.at_least": 6}) for truth in (TRUTH, found))
    (seconds, ours), *_ = (
        [moment.observed for moment in pair]
        for pair in zip(moments_of("", true.logs, 1), moments_of("", asked.logs, 1), strict=True)
    )
    assert ours == pytest.approx(seconds, rel=0.1)


def test_the_fitted_moments_are_those_of_the_log(found: RoundFit) -> None:
    assert {one.federation for one in found.moments} == {"log.csv"}
    assert found.misfit == pytest.approx(
        sum(((one.fitted - one.observed) / one.tolerance) ** 2 for one in found.moments)
    )
    assert found.misfit < 3 * len(found.moments)


def test_one_setting_cannot_tell_slow_devices_from_shared_processors(found: RoundFit) -> None:
    assert found.processors is None


def test_the_world_keeps_what_a_log_does_not_show() -> None:
    waits = {"latency_s": {"kind": "listed", "values": [5.0, 0.0]}}
    scenario = Scenario.read(SCENARIO).override({"world.downlink": waits, "world.dropout": 0.1})
    world = TRUTH.world(scenario)
    assert (world.downlink, world.dropout, world.aggregate_s) == (scenario.world.downlink, 0.1, 0.4)
    assert getattr(world.device, "s_per_sample") == pytest.approx((0.024, 0.024, *[0.008] * 4))  # noqa: B009
    assert world.device.jitter.expected() == pytest.approx(1.0)
    assert getattr(replace(TRUTH, factors={None: 2.0}).world(scenario).device, "s_per_sample") == 0.002  # noqa: B009


def test_moments_by_hand() -> None:
    log = RoundLog(np.array([1.0, 2.0, 5.0, 6.0]), np.array([3.0, 4.0, 4.0, 4.0]), None, {})
    found = {one.name: one for one in moments_of("log", [log], skip=1)}
    assert found["seconds per round, mean"].observed == pytest.approx(5 / 3)
    assert found["seconds per round, deviation"].observed == pytest.approx((8 / 9) ** 0.5)
    assert found["updates per round, mean"].observed == 4.0
    assert found["updates per round, mean"].tolerance == pytest.approx(0.04), "one per cent, as nothing varies"


def test_logs_of_different_groups_are_not_fitted_together() -> None:
    with pytest.raises(RunError, match="must name the same groups of clients"):
        fit_rounds([logged(TRUTH), logged(replace(TRUTH, factors={None: 8.0}))], skip=1)
