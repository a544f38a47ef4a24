"""How many clients compute at the same time, of trainings made by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.calibration.trainings import fit_worker_slots

NAN = np.nan


def run(*tasks: tuple[float, ...]) -> Any:
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
    found = fit_worker_slots([run((0, 0, 2, 2), (0, 2.5, 4, 4), (9, 9, 11, 11))])
    assert found.workers == 1
    assert found.turnaround_s == pytest.approx(0.5)
    assert found.waits_s.tolist() == [0.0, 2.5, 0.0]


def test_two_workers_by_hand() -> None:
    # One stands empty from 3 to 3.25 while the third waits; from 6 to 20 no client waits, which does not count.
    found = fit_worker_slots([run((0, 0, 4, 4), (0, 0, 3, 3), (1, 3.25, 6, 6), (20, 20, 21, 21))])
    assert (found.workers, found.turnaround_s) == (2, pytest.approx(0.25))


def test_a_client_that_goes_offline_leaves_the_queue() -> None:
    found = fit_worker_slots([run((0, 0, 2, 2), (0, NAN, NAN, 1), (0.5, 3, 5, 5), (4, NAN, NAN, 5))])
    assert (found.workers, found.turnaround_s) == (1, pytest.approx(1.0))
    # A client without a time of leaving waits to the end of the trace.
    found = fit_worker_slots([run((0, 0, 2, 2), (0, NAN, NAN, NAN))])
    assert (found.workers, found.turnaround_s) == (None, 0.0)
    found = fit_worker_slots([run((0, 0, 2, 2), (0, 2, 3, 3), (0, NAN, NAN, NAN))])
    assert (found.workers, found.turnaround_s) == (1, 0.0)


def test_only_clients_that_waited_before_show_the_whole_turnaround() -> None:
    # The first who waits sees all of 0.5 s; who comes 0.2 s after the place was left the rest, and does not count.
    found = fit_worker_slots([run((0, 0, 2, 2), (0, 2.5, 4, 4), (4.2, 4.5, 6, 6), (5, 6.7, 8, 8))])
    assert found.turnaround_s == pytest.approx((0.5 + 0.7) / 2)
    # Without clients that waited before, the observed part is used.
    assert fit_worker_slots([run((0, 0, 2, 2), (2.25, 3, 4, 4))]).turnaround_s == pytest.approx(1.0)
