"""When the server aggregates and evaluates, and how many processors it shares with the clients."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.calibration.fit import Calibration
from asyncfl.extras.calibration.machine import (
    Concurrency,
    MachineActivity,
    aggregates_alone,
    aggregations_of,
    evaluated_s,
)
from asyncfl.measurements import Schedule
from asyncfl.protocol.events import Kind
from asyncfl.scenario import Scenario
from tests.extras.calibration.conftest import fitted_to, observe_run

ONE_MACHINE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 12, "samples_per_client": 100, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"batch_size": 50, "epochs": 1},
    "protocol": {"kind": "fedbuff", "rounds": 120, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 7}},
    "evaluation": {"test_every": 1},
    "world": {
        "device": {
            "kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.2,
            "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.3},
        },
        "workers": 2, "processors": 2, "turnaround_s": 0.02, "aggregate_s": 0.3, "aggregate_alone": True,
        "evaluate_s": 0.8, "evaluate_beside": True,
    },
}  # fmt: skip


def test_work_is_the_integral_of_the_processor_share() -> None:
    # One at work from 0, two from 1, three from 3 to 6, on 1.5 processors.
    load = Concurrency(np.array([0.0, 1.0, 3.0, 6.0]), np.array([1.0, 2.0, 3.0, 0.0]))
    assert load.rate(1.5).tolist() == [1, 0.75, 0.5, 1]
    assert load.done(np.array([0.0, 1.0, 2.0, 3.0, 6.0]), 1.5).tolist() == [0, 1, 1.75, 2.5, 4]
    assert load.reached(np.array([1.75, 4.0]), 1.5).tolist() == [2, 6]
    assert load.rate_before(np.array([1.0, 3.0, 6.0]), 1.5).tolist() == [1, 0.75, 0.5]


def test_evaluations_follow_one_another_as_fast_as_processors_allow() -> None:
    # Beside one training on one processor each gets a half: 1 s of evaluation takes 2 s, and the second waits for it.
    nothing = np.empty(0)
    training = Concurrency(np.array([0.0, 8.0, 20.0]), np.array([1.0, 0.0, 0.0]))
    machine = MachineActivity(training, np.array([2.0, 3.0, 9.0]), nothing.astype(np.int64), nothing, nothing, nothing)
    load = machine.load(1.0, 1.0)
    assert load.at_s.tolist() == [0, 2, 4, 6, 8, 9, 10, 20]
    assert load.at_work.tolist() == [1, 2, 2, 1, 0, 1, 0, 0]
    assert machine.load(1.0, 0.0) is training


@pytest.fixture(scope="module")
def known() -> Scenario:
    return Scenario.read(ONE_MACHINE)


@pytest.fixture(scope="module")
def found(known: Scenario) -> Calibration:
    return fitted_to(known)


def test_shared_processors_and_evaluation_time_are_recovered(known: Scenario, found: Calibration) -> None:
    assert found.processors == pytest.approx(2, rel=0.04)
    assert found.evaluate_s == pytest.approx(0.8, rel=0.25)
    assert found.aggregate_s == pytest.approx(0.3, rel=0.03)
    assert (found.worker_slots.workers, found.worker_slots.turnaround_s) == (2, pytest.approx(0.02))
    world = found.world()
    assert (world.processors, world.evaluate_s) == pytest.approx((found.processors, found.evaluate_s), rel=1e-5)
    assert (world.evaluate_beside, world.aggregate_alone) == (True, True)
    # Its clients are as fast as they would be alone, not as they were seen to be.
    alone = fitted_to(known.override({"world.processors": None}))
    assert (alone.processors, alone.evaluate_s, alone.world().evaluate_beside) == (None, 0.0, False)
    ratio = found.speeds.s_per_sample / alone.speeds.s_per_sample
    assert ratio.mean() == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    "jitter",
    [1.0, {"kind": "exponential", "mean": 1.0}, {"kind": "pareto", "minimum": 1.0, "alpha": 2.5}],
    ids=["fixed", "exponential", "pareto"],
)
@pytest.mark.parametrize("workers", [None, 3])
def test_no_sharing_is_found_where_each_has_a_processor(known: Scenario, jitter: Any, workers: int | None) -> None:
    changes = {"world.processors": None, "world.workers": workers, "world.device.jitter": jitter}
    found = fitted_to(known.override({**changes, "protocol.rounds": 30}))
    assert (found.processors, found.evaluate_s) == (None, 0.0)
    assert math.isclose(found.aggregate_s.mean(), 0.3)


One = tuple[float, Kind, dict[str, Any]]


def served(number: int, at_s: float, arrived_s: float, version: int, until_s: float) -> list[One]:
    """A served that ended in the version after `version`, at `until_s`."""
    of = {"task": number, "client": number % 2, "version": version}
    return [(at_s, Kind.DISPATCHED, of), (arrived_s, Kind.UPLOADED, of), (until_s, Kind.AGGREGATED, of)]


def published(version: int, at_s: float) -> One:
    return at_s, Kind.PUBLISHED, {"version": version}


def durations(*events: One | list[One]) -> list[float]:
    flat = [one for some in events for one in (some if isinstance(some, list) else [some])]
    began_s, ended_s = aggregations_of(observe_run(*sorted(flat, key=lambda one: one[0])))
    return (ended_s - began_s).tolist()


def test_aggregation_lasts_from_the_last_update_to_the_version() -> None:
    first = [published(0, 0.0), served(0, 0.0, 2.0, 0, 5.5), served(1, 0.0, 5.0, 0, 5.5), published(1, 5.5)]
    assert durations(*first) == [0.5]
    # The next one's update came before version 1 was out, and waited for that.
    assert durations(*first, served(2, 0.0, 3.0, 1, 6.25), published(2, 6.25)) == [0.5, 0.75]
    assert durations(*first, served(2, 0.0, 6.0, 1, 7.0), published(2, 7.0)) == [0.5, 1.0]


def test_aggregation_lasts_from_its_start_event_where_there_is_one() -> None:
    one = [published(0, 0.0), served(0, 0.0, 2.0, 0, 9.0), published(1, 9.0)]
    assert durations(*one) == [7.0]
    assert durations(*one, (1.5, Kind.AGGREGATION_STARTED, {}), (9.5, Kind.AGGREGATION_STARTED, {})) == [7.0]
    assert durations(*one, (5.0, Kind.AGGREGATION_STARTED, {}), (6.0, Kind.AGGREGATION_STARTED, {})) == [3.0]
    assert durations(*one, (1.0, Kind.SCORES_REQUESTED, {})) == []
    assert durations(published(0, 0.0), published(1, 3.0)) == []


def test_a_server_that_dispatches_nothing_meanwhile_aggregates_alone() -> None:
    def alone(*given_s: float, in_flight: int = 2) -> bool | None:
        first = [published(0, 0.0), *served(0, 0.0, 2.0, 0, 3.0), published(1, 3.0)]
        rest = [*served(1, 3.0, 6.0, 1, 8.0), published(2, 8.0)]
        given = [(at, Kind.DISPATCHED, {"task": 2 + n, "base_version": int(at >= 3)}) for n, at in enumerate(given_s)]
        run = observe_run(*sorted([*first, *rest, *given], key=lambda one: one[0]))
        dispatch = SimpleNamespace(level=lambda clients: in_flight)
        run = replace(run, scenario=SimpleNamespace(protocol=SimpleNamespace(dispatch=dispatch)))
        return aggregates_alone(run, aggregations_of(run))

    assert alone(3.0, 8.0) is True
    assert alone(2.0, 6.5) is False
    assert alone(2.5) is False  # in one of two
    assert alone(2.5, in_flight=0) is None


def test_evaluated_versions_are_those_of_the_scenario_and_the_last() -> None:
    run = observe_run(*(published(version, 1.5 * version) for version in range(6)))
    for every, versions in ((1, range(6)), (2, (0, 2, 4, 5)), (0, (5,))):
        asked = SimpleNamespace(evaluation_schedule=Schedule(0, every, 0, last=5))
        chosen = replace(run, scenario=asked)
        assert evaluated_s(chosen).tolist() == [1.5 * version for version in versions]
