"""What the server takes over a buffer, and how clients give up, from events written by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.calibration.machine import aggregates_alone, aggregations_of, evaluated_s
from asyncfl.calibration.trainings import DropoutRates, Trainings, fit_dropout, trainings_of
from asyncfl.trace.events import NO_EPOCH, Kind
from tests.calibration.by_hand import observe_run

One = tuple[float, Kind, dict[str, Any]]


def task(number: int, at_s: float, arrived_s: float, version: int, until_s: float) -> list[One]:
    """A task that ended in the version after `version`, at `until_s`."""
    of = {"task": number, "client": number % 2, "version": version}
    return [
        (at_s, Kind.DISPATCHED, of),
        (arrived_s, Kind.UPLOADED, of),
        (until_s, Kind.AGGREGATED, of),
    ]


def published(version: int, at_s: float) -> One:
    return at_s, Kind.PUBLISHED, {"version": version}


def found(*events: One | list[One]) -> list[float]:
    flat = [one for some in events for one in (some if isinstance(some, list) else [some])]
    began_s, ended_s = aggregations_of(observe_run(*sorted(flat, key=lambda one: one[0])))
    return (ended_s - began_s).tolist()


def test_aggregation_lasts_from_the_last_update_to_the_version() -> None:
    first = [published(0, 0.0), task(0, 0.0, 2.0, 0, 5.5), task(1, 0.0, 5.0, 0, 5.5), published(1, 5.5)]
    assert found(*first) == [0.5]
    # The next one's update came before version 1 was out, and waited for that.
    assert found(*first, task(2, 0.0, 3.0, 1, 6.25), published(2, 6.25)) == [0.5, 0.75]
    assert found(*first, task(2, 0.0, 6.0, 1, 7.0), published(2, 7.0)) == [0.5, 1.0]


def test_aggregation_lasts_from_its_start_event_or_timer_where_there_is_one() -> None:
    one = [published(0, 0.0), task(0, 0.0, 2.0, 0, 9.0), published(1, 9.0)]
    assert found(*one) == [7.0]
    assert found(*one, (1.5, Kind.AGGREGATION_STARTED, {}), (9.5, Kind.AGGREGATION_STARTED, {})) == [7.0]
    assert found(*one, (5.0, Kind.AGGREGATION_STARTED, {}), (6.0, Kind.AGGREGATION_STARTED, {})) == [3.0]
    assert found(*one, (4.0, Kind.TIMER_FIRED, {}), (7.0, Kind.TIMER_FIRED, {})) == [2.0]
    assert found(*one, (2.0, Kind.TIMER_FIRED, {})) == [7.0]
    assert found(*one, (1.0, Kind.TIMER_FIRED, {}), (9.0, Kind.TIMER_FIRED, {})) == [7.0]
    assert found(*one, (7.0, Kind.TIMER_FIRED, {}), (2.5, Kind.AGGREGATION_STARTED, {})) == [6.5]


def test_versions_that_waited_for_a_lost_update_are_left_out() -> None:
    one = [published(0, 0.0), task(0, 0.0, 2.0, 0, 9.0), published(1, 9.0)]
    for kind in (Kind.LOST, Kind.DROPPED_OUT, Kind.DISCARDED):
        of = {"detail": "up"} if kind == Kind.LOST else {}
        assert found(*one, (2.0, kind, of)) == [7.0]
        assert found(*one, (2.5, kind, of)) == []
        assert found(*one, (9.0, kind, of)) == []
        assert found(*one, (9.5, kind, of)) == [7.0]
    assert found(*one, (1.0, Kind.SCORES_REQUESTED, {})) == []
    assert found(published(0, 0.0), published(1, 3.0)) == []


def test_a_server_that_dispatches_nothing_meanwhile_aggregates_alone() -> None:
    def alone(*given_s: float, in_flight: int = 2) -> bool | None:
        first = [published(0, 0.0), *task(0, 0.0, 2.0, 0, 3.0), published(1, 3.0)]
        rest = [*task(1, 3.0, 6.0, 1, 8.0), published(2, 8.0)]
        given = [(at, Kind.DISPATCHED, {"task": 2 + n, "base_version": int(at >= 3)}) for n, at in enumerate(given_s)]
        run = observe_run(*sorted([*first, *rest, *given], key=lambda one: one[0]))
        dispatch = SimpleNamespace(level=lambda clients: in_flight)
        run = replace(run, scenario=SimpleNamespace(protocol=SimpleNamespace(dispatch=dispatch)))
        return aggregates_alone(run, aggregations_of(run))

    assert alone(3.0, 8.0) is True
    assert alone(2.0, 6.5) is False
    assert alone(2.5) is False  # in one of two
    assert alone(2.5, in_flight=0) is None


def test_tasks_dispatched_with_a_version_do_not_count_as_dispatched_while_aggregating() -> None:
    first = [published(0, 0.0), *task(0, 0.0, 2.0, 0, 3.0), *task(1, 0.0, 2.5, 0, 5.0), published(1, 3.0)]
    given = [
        (3.01, Kind.DISPATCHED, {"task": 2, "base_version": 1}),
        (5.01, Kind.DISPATCHED, {"task": 3, "base_version": 2}),
    ]
    run = observe_run(*sorted([*first, *given, published(2, 5.0)], key=lambda one: one[0]))
    dispatch = SimpleNamespace(level=lambda clients: 2)
    run = replace(run, scenario=SimpleNamespace(protocol=SimpleNamespace(dispatch=dispatch)))
    assert aggregates_alone(run, aggregations_of(run)) is True


def test_evaluated_versions_are_those_of_the_scenario_and_the_last() -> None:
    run = observe_run(*(published(version, 1.5 * version) for version in range(6)))
    for every, versions in ((1, range(6)), (2, (0, 2, 4, 5)), (0, (5,))):
        asked = SimpleNamespace(evaluation=SimpleNamespace(test_every=every), protocol=SimpleNamespace(rounds=5))
        chosen = replace(run, scenario=asked)
        assert evaluated_s(chosen).tolist() == [1.5 * version for version in versions]


def dropped(number: int, at_s: float, size: int = -1, detail: str = "") -> list[One]:
    of = {"task": number, "client": number % 2}
    return [(0.0, Kind.DISPATCHED, of), (at_s, Kind.DROPPED_OUT, {**of, "bytes": size, "detail": detail})]


def gave_up(begun: int, *events: list[One]) -> DropoutRates:
    flat = sorted((one for some in events for one in some), key=lambda one: one[0])
    nothing = np.zeros(begun)
    trainings = Trainings(nothing.astype(int), nothing, nothing, nothing > 0)
    return fit_dropout([observe_run(*flat)], trainings, np.array([0.5, 0.25]))


def test_the_likelier_of_the_two_dropout_rules_is_chosen() -> None:
    # Work of 20 samples at .5 s for client 0, 40 at .25 s for client 1: 10 s each. Of 4 trainings 2 broke off: by the
    # task (1/2)^4 / 100, by the second (2/t)^2 e^-2 in t seconds, which is as much at t = 10 * 2 * 4 / e = 29.4 s.
    assert gave_up(4, dropped(0, 14.0), dropped(1, 15.0)) == DropoutRates(0.0, 2 / 29.0, 2)
    assert gave_up(4, dropped(0, 14.0), dropped(1, 16.0)) == DropoutRates(0.5, 0.0, 2)


def test_a_dropout_during_a_message_means_a_rate_per_second() -> None:
    assert gave_up(4, dropped(0, 90.0, size=0), dropped(1, 60.0)) == DropoutRates(0.0, 2 / 150, 2)


def test_absent_and_stopped_clients_did_not_drop_out() -> None:
    others = [dropped(number, 3.0, detail=detail) for number, detail in enumerate(["offline", "left", NO_EPOCH])]
    assert gave_up(9, *others) == DropoutRates(0.0, 0.0, 0)
    unknown: list[One] = [(1.0, Kind.DROPPED_OUT, {"task": -1})]
    assert gave_up(9, unknown) == DropoutRates(0.0, 0.0, 0)


def test_trainings_have_samples_times_epochs_of_work_and_their_observed_time() -> None:
    def trained(number: int, began_s: float, *more: One) -> list[One]:
        of = {"task": number, "client": number % 2}
        return [(0.0, Kind.DISPATCHED, of), (began_s, Kind.TRAINING_STARTED, of), *more]

    def at(time_s: float, kind: Kind, number: int, **more: Any) -> One:
        return time_s, kind, {"task": number, "client": number % 2, **more}

    events = [
        *trained(0, 1.0, at(4.0, Kind.TRAINED, 0)),
        *trained(1, 2.0, at(4.0, Kind.TRAINED, 1, detail="1 of 2 epochs")),
        *trained(2, 2.0, at(7.0, Kind.DROPPED_OUT, 2)),
        *trained(3, 3.0),
        (0.0, Kind.DISPATCHED, {"task": 4, "client": 0}),
        (20.0, Kind.STOPPED, {}),
    ]
    run = observe_run(*sorted(events, key=lambda one: one[0]))

    def seconds(place: int, began_s: Any, ended_s: Any) -> Any:
        return ended_s - began_s

    found_trainings = trainings_of([run], seconds)
    assert found_trainings.client.tolist() == [0, 1, 0, 1]
    assert found_trainings.work.tolist() == [20.0, 40.0, 20.0, 40.0]
    assert found_trainings.seconds.tolist() == [3.0, 2.0, 5.0, 17.0]
    assert found_trainings.seen.tolist() == [True, False, False, False]
    nothing = trainings_of([observe_run(*sorted(events, key=lambda one: one[0]), samples=(0, 1))], seconds)
    assert nothing.client.tolist() == [1, 1]
    assert math.isclose(run.end_s, 20.0)
    assert pytest.approx(found_trainings.work) == trainings_of([run], seconds).work
    assert (
        trainings_of([run, run], lambda place, began_s, ended_s: 0 * began_s + place).seconds.tolist()
        == [0] * 4 + [1] * 4
    )
