"""Speeds, the jitter of tasks, workers, from trainings written by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.calibration.trainings import (
    FittedSpeeds,
    Trainings,
    fit_speeds,
    fit_worker_slots,
    trainings_of,
)
from asyncfl.protocol.events import Kind
from asyncfl.world.distributions import Fixed, Lognormal
from tests.extras.calibration.conftest import observe_run


def speeds(clients: int, *rows: tuple[int, float, float, bool]) -> FittedSpeeds:
    """Of trainings as (client, work, seconds, seen to its end)."""
    client, work, seconds, seen = map(np.array, zip(*rows, strict=True))
    return fit_speeds(clients, Trainings(client, work * 1.0, seconds * 1.0, seen))


def test_a_clients_speed_is_the_mean_of_its_trainings() -> None:
    found = speeds(
        4, (0, 10, 2.0, True), (0, 20, 4.0, True), (1, 10, 5.0, True), (2, 10, 1.0, False), (3, 10, 9.0, True)
    )
    assert found.s_per_sample == pytest.approx([0.2, 0.5, 0.5, 0.9])
    assert (found.unseen, found.trainings) == ((2,), 4)
    assert found.jitter.distribution == Fixed(value=1.0)
    # Of those who were seen, not of whom the median was given.
    assert found.population.distribution.expected() == pytest.approx(1.6 / 3)


def test_jitter_is_widened_for_the_error_of_the_clients_mean() -> None:
    factors = np.exp(0.5 * np.random.default_rng(0).standard_normal(4000))
    found = speeds(2000, *((row // 2, 10, 10.0 * factor, True) for row, factor in enumerate(factors.tolist())))
    assert isinstance(found.jitter.distribution, Lognormal)
    assert found.jitter.distribution.sigma == pytest.approx(0.5, rel=0.05), "of two trainings the mean takes half"


def test_a_training_cut_off_late_counts_with_its_observed_time() -> None:
    rows = [(0, 1, 1.0, True), (0, 1, 3.0, True), (1, 1, 2.0, True), *[(0, 1, s, True) for s in (1.0, 2.0, 3.0) * 2]]
    assert speeds(2, *rows).s_per_sample == pytest.approx([2.0, 2.0])
    more = speeds(3, *rows, (0, 1, 11.0, False), (0, 1, 1.9, False), (2, 1, 50.0, False))
    assert more.s_per_sample == pytest.approx([27 / 9, 2.0, 2.5])
    assert more.unseen == (2,)


NAN = np.nan


def run_of(*tasks: tuple[float, ...]) -> Any:
    """Tasks as (model came, training began, training ended, left)."""
    came, began, ended, left = np.array(tasks, dtype=np.float64).T
    return SimpleNamespace(
        tasks=SimpleNamespace(
            downloaded_s=came,
            training_started_s=began,
            trained_s=ended,
            training_s=ended - began,
            left_s=left,
            end_s=np.full(len(tasks), 300.0),
        )
    )


def test_one_worker_and_its_turnaround_by_hand() -> None:
    # The second waits from 0, and begins half a second after the first has ended; the third finds the place free.
    found = fit_worker_slots([run_of((0, 0, 2, 2), (0, 2.5, 4, 4), (9, 9, 11, 11))])
    assert found.workers == 1
    assert found.turnaround_s == pytest.approx(0.5)
    assert found.waits_s.tolist() == [0.0, 2.5, 0.0]


def test_two_workers_by_hand() -> None:
    # One stands empty from 3 to 3.25 while the third waits; from 6 to 20 no client waits, which does not count.
    found = fit_worker_slots([run_of((0, 0, 4, 4), (0, 0, 3, 3), (1, 3.25, 6, 6), (20, 20, 21, 21))])
    assert (found.workers, found.turnaround_s) == (2, pytest.approx(0.25))


def test_a_client_that_goes_offline_leaves_the_queue() -> None:
    found = fit_worker_slots([run_of((0, 0, 2, 2), (0, NAN, NAN, 1), (0.5, 3, 5, 5), (4, NAN, NAN, 5))])
    assert (found.workers, found.turnaround_s) == (1, pytest.approx(1.0))
    # A client without a time of leaving waits to the end of the trace.
    found = fit_worker_slots([run_of((0, 0, 2, 2), (0, NAN, NAN, NAN))])
    assert (found.workers, found.turnaround_s) == (None, 0.0)
    found = fit_worker_slots([run_of((0, 0, 2, 2), (0, 2, 3, 3), (0, NAN, NAN, NAN))])
    assert (found.workers, found.turnaround_s) == (1, 0.0)


def test_only_clients_that_waited_before_show_the_whole_turnaround() -> None:
    # The first who waits sees all of 0.5 s; who comes 0.2 s after the place was left the rest, and does not count.
    found = fit_worker_slots([run_of((0, 0, 2, 2), (0, 2.5, 4, 4), (4.2, 4.5, 6, 6), (5, 6.7, 8, 8))])
    assert found.turnaround_s == pytest.approx((0.5 + 0.7) / 2)
    # Without clients that waited before, the observed part is used.
    assert fit_worker_slots([run_of((0, 0, 2, 2), (2.25, 3, 4, 4))]).turnaround_s == pytest.approx(1.0)


One = tuple[float, Kind, dict[str, Any]]


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
    assert (
        trainings_of([run, run], lambda place, began_s, ended_s: 0 * began_s + place).seconds.tolist()
        == [0] * 4 + [1] * 4
    )
