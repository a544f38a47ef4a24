import numpy as np
import pyarrow as pa
import pytest

from asyncfl.federation.storage import Run
from asyncfl.trace import Recorder
from asyncfl.trace.tasks import FATES, Tasks, tasks_of

TIMED = ("aggregated", "flagged", "lost_down", "dropped_out", "timed_out", "aggregated", "unfinished")


@pytest.fixture
def tasks(story: pa.Table) -> Tasks:
    return tasks_of(story)


def test_each_task_that_began_has_one_row_and_one_fate(tasks: Tasks) -> None:
    assert tasks.task.tolist() == [0, 1, 2, 3, 4, 6, 7]
    assert tasks.client.tolist() == [0, 1, 2, 2, 0, 2, 0]
    assert tuple(FATES[fate] for fate in tasks.fate) == TIMED
    assert tasks.making.tolist() == [1, 1, 1, 1, 2, 2, -1]
    assert tasks.staleness.tolist() == [0, 0, -1, -1, -1, 1, -1]
    assert tasks.weight.tolist() == [0.5, 0, 0, 0, 0, 0.25, 0]


def test_a_phase_lasts_from_its_first_to_its_last_event(tasks: Tasks) -> None:
    nan = np.nan
    np.testing.assert_array_equal(tasks.download_s, [1, 1, nan, 1, 0.5, 1, 1])
    np.testing.assert_array_equal(tasks.training_s, [2, 3.5, nan, nan, 1.5, 1, nan])
    np.testing.assert_array_equal(tasks.upload_s, [1, 0.5, nan, nan, 1, 1, nan])
    np.testing.assert_allclose(tasks.waiting_s, [1, 0, nan, nan, nan, 0.8, nan])
    np.testing.assert_array_equal(tasks.left_s, [4, 5, 2, 4, 7, 9, nan])


def test_an_update_that_comes_after_its_fate_is_not_held(tasks: Tasks) -> None:
    assert tasks.held.tolist() == [True, True, False, False, False, True, False]


def test_traffic_counts_bytes_sent_whether_or_not_they_arrived(tasks: Tasks) -> None:
    assert tasks.bytes_down.tolist() == [100, 100, 300, 100, 100, 100, 100]
    assert tasks.bytes_up.tolist() == [100, 150, 0, 0, 100, 100, 0]
    assert tasks.attempts_down.tolist() == [1, 1, 3, 1, 1, 1, 1]
    assert tasks.attempts_up.tolist() == [1, 2, 0, 0, 1, 1, 0]
    assert tasks.overheard.tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_tasks_are_chosen_by_every_condition(tasks: Tasks) -> None:
    assert tasks.select(clients=[0, 2], since_s=2.0, until_s=6.0).task.tolist() == [3, 4, 6]
    assert tasks.select(task=6, seed=3).task.tolist() == [6]
    assert len(tasks.select(seed=4)) == 0
    assert len(tasks.select(clients=[])) == 0


def test_the_fates_of_a_run_equal_its_summary(lossy: Run) -> None:
    found = np.bincount(tasks_of(lossy.tables["events"]).fate, minlength=len(FATES))
    assert dict(zip(FATES, found.tolist(), strict=True)) == lossy.summary["fates"]


def test_an_empty_trace_has_no_tasks() -> None:
    assert len(tasks_of(Recorder(seed=0).table())) == 0
