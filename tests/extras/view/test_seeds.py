"""What of a seed reaches its page, of a few tasks and events made by hand."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.extras.view.packing import Packing, events_with, measured, pack_events, pack_requests, pack_tasks
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import FATES, KINDS, Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from tests.results.trace.conftest import trace_of


class Plain(Packing):
    """Columns as they are put down."""

    def numbers(self, values: Any) -> Any:
        return np.asarray(values).tolist()

    def texts(self, values: Any) -> Any:
        return list(values)


def of(task: int, client: int, **more: Any) -> dict[str, Any]:
    return {"task": task, "client": client, "base_version": 0, "version": 0, **more}


STORY = trace_of(
    (0.5, Kind.CAME_ONLINE, {"client": 3}),
    (1.0, Kind.DISPATCHED, of(0, 1)),
    (1.0, Kind.DISPATCHED, of(1, 0)),
    (1.25, Kind.DOWNLOAD_STARTED, of(0, 1)),
    (1.5, Kind.DOWNLOADED, of(0, 1, detail="down", size=7, attempt=1)),
    (2.0, Kind.TRAINING_STARTED, of(0, 1)),
    (2.25, Kind.TIMER_FIRED, {}),
    (4.0, Kind.TRAINED, of(0, 1)),
    (4.0, Kind.UPLOAD_STARTED, of(0, 1)),
    (4.5, Kind.UPLOADED, of(0, 1, detail="up", size=9, attempt=2)),
    (5.0, Kind.AGGREGATED, of(0, 1, weight=0.5, staleness=0)),
    (5.0, Kind.PUBLISHED, {"version": 1}),
    (5.5, Kind.DISPATCHED, of(2, 1)),
    (6.0, Kind.WENT_OFFLINE, of(2, 1, size=3)),
    (6.0, Kind.DROPPED_OUT, of(2, 1, detail="offline")),
    (7.0, Kind.AGGREGATED, of(3, 0, detail="late")),
    (8.0, Kind.BANNED, {"client": 3}),
    (9.0, Kind.TIMER_FIRED, {}),
    (9.5, Kind.STOPPED, {}),
)


def test_phases_of_tasks_are_durations_one_after_another_by_client() -> None:
    shown = pack_tasks(Tasks.of(tasks_of_events(STORY)), Plain())
    assert shown["task"] == [1, 0, 2]
    assert shown["client"] == [0, 1, 1]
    assert shown["dispatched"] == [1_000_000, 1_000_000, 5_500_000]
    phases = ("download_started", "downloaded", "training_started", "trained", "upload_started", "uploaded")
    # Of the first task nothing more is known; microseconds since the phase before.
    assert [[shown[name][place] for name in phases] for place in range(3)] == [
        [-1] * 6,
        [250_000, 250_000, 500_000, 2_000_000, 0, 500_000],
        [-1] * 6,
    ]
    assert shown["left"] == [-1, 3_500_000, 500_000]
    assert shown["settled"] == [-1, 4_000_000, 500_000]
    assert [FATES[fate] for fate in shown["fate"]] == ["unfinished", "aggregated", "dropped_out"]
    assert (shown["bytes_down"], shown["attempts_up"]) == ([0, 7, 3], [0, 2, 0])


def test_events_that_say_more_than_tasks_do() -> None:
    shown = pack_events(STORY, Plain())
    told = [(time / 1e6, KINDS[kind]) for time, kind in zip(shown["time"], shown["kind"], strict=True)]
    assert told == [
        (0.5, "came_online"),
        (2.25, "timer_fired"),
        (6.0, "went_offline"),
        (6.0, "dropped_out"),
        (7.0, "aggregated"),
        (8.0, "banned"),
        (9.0, "timer_fired"),
        (9.5, "stopped"),
    ]
    assert shown["detail"] == ["", "", "", "offline", "late", "", "", ""]
    assert shown["client"] == [3, -1, 1, 1, 0, 3, -1, -1]


@pytest.mark.parametrize(
    ("chosen", "since_s", "times"),
    [
        # Of task 0, from 1 s to 5 s: its own events, nobody's while it was under way, and what was so before.
        ([0], None, [0.5, 1.0, 1.25, 1.5, 2.0, 2.25, 4.0, 4.0, 4.5, 5.0, 5.0]),
        ([0], 2.5, [0.5, 1.0, 1.25, 1.5, 2.0, 4.0, 4.0, 4.5, 5.0, 5.0]),
        # Task 2 ended at 6 s; whoever went offline is away, whatever window is looked at.
        ([2], 5.25, [0.5, 5.5, 6.0, 6.0]),
        # Task 1 never ended.
        ([1], 8.5, [0.5, 1.0, 6.0, 8.0, 9.0, 9.5]),
    ],
)
def test_a_window_has_what_happened_while_its_tasks_were_under_way(
    chosen: list[int], since_s: float | None, times: list[float]
) -> None:
    tasks = Tasks.of(tasks_of_events(STORY))
    found = events_with(STORY, tasks.only(np.isin(tasks.task, chosen)), since_s)
    assert found["time_s"].to_pylist() == times


def test_requests_for_scores_have_their_answers() -> None:
    asked = trace_of(
        (1.0, Kind.SCORES_REQUESTED, {"client": 2, "version": 3, "detail": "2 models"}),
        (1.5, Kind.SCORED, {"client": 2, "version": 3, "detail": "2 models"}),
        (2.0, Kind.SCORES_REQUESTED, {"client": 4, "version": 3, "detail": "5 models"}),
    )
    shown = pack_requests(asked, Plain())
    assert (shown["client"], shown["making"]) == ([2, 4], [4, 4])
    assert (shown["began"], shown["ended"][0]) == ([1_000_000, 2_000_000], 1_500_000)
    assert shown["said"] == ["2 models", "5 models, not finished"]


def audit(*rows: tuple[float, float, str, str, bool]) -> pa.Table:
    names = ("time_s", "epsilon", "holder", "adversary", "counts")
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


ROWS = audit(
    (3.0, 2.0, "client", "server", True),
    (1.0, 0.0, "client", "server", True),
    (2.0, 1.0, "client", "server", True),
    (4.0, 1.5, "client", "server", True),
    (5.0, 9.0, "client", "server", False),
    (6.0, 9.0, "client", "both", True),
    (7.0, 9.0, "model", "server", True),
    (8.0, 2.5, "client", "server", True),
)


def test_the_measured_epsilon_has_a_row_for_each_rise() -> None:
    times, epsilon = measured(ROWS)
    assert (times.tolist(), epsilon.tolist()) == ([2.0, 3.0, 8.0], [1.0, 2.0, 2.5])
    without = measured(ROWS.drop_columns(["counts"]))
    assert (without[0].tolist(), without[1].tolist()) == ([2.0, 3.0, 5.0], [1.0, 2.0, 9.0])
