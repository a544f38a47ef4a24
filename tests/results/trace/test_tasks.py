"""Tasks of a trace, and tables of them by client, version, staleness and seed."""

import math

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.protocol.recorder import Recorder
from asyncfl.protocol.score_requests import score_requests_of
from asyncfl.protocol.tasks import FATES, Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.storage import Run
from asyncfl.results.tabulate import tabulate

TIMED = ("aggregated", "flagged", "lost_down", "dropped_out", "timed_out", "aggregated", "unfinished")


@pytest.fixture
def tasks(story: pa.Table) -> Tasks:
    return Tasks.of(tasks_of_events(story))


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
    found = np.bincount(Tasks.of(lossy.tables["tasks"]).fate, minlength=len(FATES))
    counted = dict(zip(FATES, found.tolist(), strict=True))
    assert counted.pop("below_threshold") == 0, "a fate of runs with secure aggregation alone"
    assert counted == lossy.summary["fates"]


def test_an_empty_trace_has_no_tasks() -> None:
    assert len(Tasks.of(tasks_of_events(Recorder(seed=0).table()))) == 0


def test_clients_have_their_fates_and_mean_durations(tasks: Tasks) -> None:
    rows = {row["client"]: row for row in tabulate(tasks, "client").to_pylist()}
    assert list(rows) == [0, 1, 2]
    first = rows[0]
    assert (first["tasks"], first["aggregated"], first["timed_out"], first["unfinished"]) == (3, 1, 1, 1)
    assert first["download_s"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert first["training_s"] == pytest.approx((2 + 1.5) / 2)
    assert first["waiting_s"] == 1
    assert (rows[1]["retransmissions"], rows[1]["overheard"], rows[2]["retransmissions"]) == (1, 1, 2)
    assert rows[2]["staleness_max"] == 1
    assert "banned" not in first  # no task has that fate


def test_versions_count_the_tasks_settled_while_they_were_made(tasks: Tasks) -> None:
    first, second = tabulate(tasks, "version").to_pylist()
    assert (first["version"], first["tasks"], first["aggregated"], first["flagged"]) == (1, 4, 1, 1)
    assert (second["version"], second["tasks"], second["aggregated"], second["timed_out"]) == (2, 2, 1, 1)
    assert [row["tasks"] for row in tabulate(tasks, "base_version").to_pylist()] == [6, 1]


def test_staleness_is_a_distribution_of_judged_updates(tasks: Tasks) -> None:
    rows = tabulate(tasks, "staleness").to_pylist()
    assert [(row["staleness"], row["tasks"]) for row in rows] == [(0, 2), (1, 1)]
    assert [row["share"] for row in rows] == pytest.approx([2 / 3, 1 / 3])


def test_quantiles_are_values_that_occur(tasks: Tasks) -> None:
    (row,) = tabulate(tasks, "seed").to_pylist()
    assert (row["seed"], row["tasks"]) == (3, 7)
    assert row["staleness_mean"] == pytest.approx(1 / 3)
    assert (row["staleness_p50"], row["staleness_p90"], row["staleness_max"]) == (0, 1, 1)


def test_scoring_requests_are_counted_by_client_and_version(story: pa.Table, tasks: Tasks) -> None:
    requests = score_requests_of(story)
    by_client = {row["client"]: row for row in tabulate(tasks, "client", requests).to_pylist()}
    assert [by_client[client]["score_requests"] for client in (0, 1, 2)] == [1, 0, 0]
    assert by_client[0]["scoring_s"] == pytest.approx(0.3)
    assert math.isnan(by_client[1]["scoring_s"])
    rows = tabulate(tasks, "version", requests).to_pylist()
    assert [(row["score_requests"], row["scores"]) for row in rows] == [(0, 0), (2, 1)]
    assert "score_requests" not in tabulate(tasks, "staleness", requests).column_names


def test_means_over_no_tasks_are_nan(tasks: Tasks) -> None:
    lost = tabulate(tasks.select(task=2), "client").to_pylist()[0]
    assert all(math.isnan(lost[name]) for name in ("download_s", "waiting_s", "staleness_mean", "staleness_max"))


def test_every_grouping_counts_each_task_once(lossy: Run) -> None:
    tasks = Tasks.of(lossy.tables["tasks"])
    unfinished = lossy.summary["fates"]["unfinished"]
    for by in ("client", "base_version", "seed"):
        table = tabulate(tasks, by)
        assert sum(table["tasks"].to_pylist()) == len(tasks)
        assert sum(table["aggregated"].to_pylist()) == lossy.summary["fates"]["aggregated"]
    assert sum(tabulate(tasks, "version")["tasks"].to_pylist()) == len(tasks) - unfinished
