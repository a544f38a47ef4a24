"""What seldom stands in a trace: task 0 among the marks, a rejected update, a run that ends within its first second."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.errors import InputError
from asyncfl.trace import Kind, Recorder, client_tracks
from asyncfl.trace.client_tracks import client_instants, offline_slices
from asyncfl.trace.compare import compare
from asyncfl.trace.events import is_epochs_detail
from asyncfl.trace.follow import follow
from asyncfl.trace.perfetto import chrome_trace
from asyncfl.trace.scoring_requests import scoring_requests_of
from asyncfl.trace.server_track import server_events
from asyncfl.trace.tasks import tasks_of
from asyncfl.trace.tracks import Tracks, counter_of

TRACKS = Tracks(pid=1, seeds=1, clients=1)


def told(*events: tuple[float, Kind, dict[str, Any]], seed: int = 0) -> pa.Table:
    book = Recorder(seed)
    for time_s, kind, more in events:
        book.add(time_s, kind, **more)
    return book.table()


def test_marks_of_the_first_task_say_whose_it_is_and_how_often_it_was_sent() -> None:
    events = told(
        (0.25, Kind.LOST, {"task": 0, "client": 0, "attempt": 1, "detail": "up"}),
        (0.5, Kind.RETRANSMITTED, {"task": 0, "client": 0, "attempt": 2, "detail": "up"}),
        (0.5, Kind.DISCARDED, {"task": 0, "client": 0, "staleness": 0, "detail": "timed_out"}),
        (0.75, Kind.BANNED, {"client": 0}),
        (0.75, Kind.BANNED, {"client": 1}),
    )
    marks = [json.loads(one) for one in client_instants(events, TRACKS, {0})]
    assert [(one["name"], one["ts"], one["tid"], one.get("args")) for one in marks] == [
        ("lost", 250_000, 2, {"task": 0, "transmissions": 1, "detail": "up"}),
        ("retransmitted", 500_000, 2, {"task": 0, "transmission": 2, "detail": "up"}),
        ("timed out", 500_000, 2, {"task": 0, "staleness": 0}),
        ("banned", 750_000, 2, None),
    ]


def test_a_client_is_offline_from_the_first_that_is_told_of_it_to_its_next_task() -> None:
    events = told(
        (0.25, Kind.WENT_OFFLINE, {"client": 0}),
        (0.5, Kind.WENT_OFFLINE, {"client": 0}),
        (0.75, Kind.DISPATCHED, {"client": 0, "task": 0}),
        (0.8, Kind.CAME_ONLINE, {"client": 0}),
        (0.9, Kind.WENT_OFFLINE, {"client": 1}),
    )
    found = [json.loads(one) for one in offline_slices(events, TRACKS, None)]
    assert [(one["tid"], one["ts"], one["dur"]) for one in found] == [(2, 250_000, 500_000), (3, 900_000, 0)]
    assert len(list(offline_slices(events, TRACKS, {1}))) == 1


@pytest.mark.parametrize("chunk", [1, 3])
def test_a_long_trace_is_shown_some_rows_at_a_time(
    story: pa.Table, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    whole = list(chrome_trace(story, "x"))
    monkeypatch.setattr(client_tracks, "CHUNK", chunk)
    assert list(chrome_trace(story, "x")) == whole


def test_the_requests_of_the_only_client_have_a_track_beside_its_tasks() -> None:
    events = told(
        (0.0, Kind.PUBLISHED, {"version": 0}),
        (0.25, Kind.SCORES_REQUESTED, {"client": 0, "version": 0, "detail": "2 models"}),
        (0.5, Kind.PUBLISHED, {"version": 1}),
    )
    [request] = scoring_requests_of(events)
    assert (request.asked_s, request.ended_s, request.answered) == (0.25, 0.5, False)
    found = [json.loads(one) for one in chrome_trace(events, "x")]
    assert [(one["tid"], one["ts"], one["dur"], one["args"]["detail"]) for one in found if one["name"] == "score"] == [
        (1, 250_000, 250_000, "2 models, not finished"),
        (3, 250_000, 250_000, "2 models, not finished"),
    ]


def test_of_timers_only_deadlines_and_limits_are_marks_of_the_server() -> None:
    events = told(*((0.5, Kind.TIMER_FIRED, {"detail": name}) for name in ("deadline:3", "cohort", "time_limit", "x")))
    marks = [json.loads(one) for one in server_events(events, [], TRACKS, None, {})]
    assert [(one["name"], one["tid"], one["args"]) for one in marks] == [
        ("timer fired", 1, {"detail": "deadline:3"}),
        ("timer fired", 1, {"detail": "time_limit"}),
    ]


def test_a_counter_tells_the_last_value_of_a_moment_and_only_changes() -> None:
    times, values = np.array([0, 0, 5, 7, 7, 9]), np.array([1, 2, 2, 3, 4, 4])
    points = [json.loads(one) for one in counter_of("held", "updates", times, values, TRACKS)]
    assert [(one["ts"], one["args"]) for one in points] == [(0, {"updates": 2}), (7, {"updates": 4})]
    assert list(counter_of("held", "updates", times[:0], values[:0], TRACKS)) == []


def test_a_trace_ends_with_its_last_event_also_within_the_first_second() -> None:
    began = {"task": 0, "client": 4, "base_version": 2}
    tasks = tasks_of(told((0.25, Kind.DISPATCHED, began), (0.5, Kind.DOWNLOAD_STARTED, began)))
    assert (tasks.end_s.tolist(), tasks.left_s.tolist()) == ([0.5], pytest.approx([np.nan], nan_ok=True))


def test_an_update_that_is_rejected_was_judged_for_the_version_that_was_made() -> None:
    task = {"task": 0, "client": 1, "base_version": 0, "version": 0}
    events = told(
        (0.0, Kind.DISPATCHED, task),
        (1.0, Kind.UPLOADED, task | {"size": 10, "attempt": 1, "detail": "up"}),
        (2.5, Kind.REJECTED, task | {"detail": "not finite"}),
        (2.5, Kind.BANNED, {"client": 1, "version": 0}),
        (3.0, Kind.BANNED, {"client": 1, "version": 0}),
    )
    life = follow(events, 0)
    assert (life.fate, life.version, life.staleness, life.weight) == ("rejected", 1, None, 0.0)
    assert life.headline == "task 0 of client 1 (seed 0), sent version 0: rejected when version 1 was made"
    assert life.durations_s == {"waiting": 1.5, "total": 2.5}
    assert [(step.time_s, step.event) for step in life.steps[-2:]] == [(2.5, "rejected"), (2.5, "banned")]


@pytest.mark.parametrize(("staleness", "said"), [(0, ""), (1, ", 1 version stale"), (2, ", 2 versions stale")])
def test_a_flagged_update_says_how_old_it_was(staleness: int, said: str) -> None:
    task = {"task": 0, "client": 1, "base_version": 0}
    flagged = (1.0, Kind.FLAGGED, task | {"version": staleness, "staleness": staleness, "weight": 0.0})
    life = follow(told((0.0, Kind.DISPATCHED, task | {"version": 0}), flagged), 0)
    assert life.headline.endswith(f": flagged when version {staleness + 1} was made{said}")


def test_tasks_are_numbered_from_0(story: pa.Table) -> None:
    for task in (-1, 8):
        with pytest.raises(InputError, match=rf"task: must be 0\.\.7, got {task}"):
            follow(story, task)


def test_runs_are_compared_seed_by_seed(story: pa.Table) -> None:
    def of(*seeds: int) -> pa.Table:
        parts = [story.set_column(2, "seed", pa.array([seed] * len(story), pa.int64())) for seed in seeds]
        return pa.concat_tables(parts)

    rounds = pa.table({"seed": [0, 1, 5], "version": [0, 0, 0]})
    for one, other, compared, only_one, only_other in (
        ((1, 0), (0, 1), [(0, 0), (1, 1)], (), ()),
        ((1,), (0, 1), [(1, 1)], (), (0,)),
        ((0, 1), (5,), [], (0, 1), (5,)),
        ((0, 1), (5, 6), [], (0, 1), (5, 6)),
        ((5,), (5,), [(5, 5)], (), ()),
    ):
        found = compare(of(*one), of(*other), rounds, rounds)
        assert [(seed.seed, seed.other_seed) for seed in found.seeds] == compared
        assert (found.only_one, found.only_other) == (only_one, only_other)
        assert found.same == (not only_one and not only_other)


def test_a_trace_of_one_moment_lasts_no_time(story: pa.Table) -> None:
    rounds = pa.table({"seed": [3], "version": [0]})
    [seed] = compare(story.slice(0, 1), story, rounds, rounds).seeds
    lines = {line.what: (line.one, line.other) for line in seed.lines}
    assert lines["virtual seconds"] == (0.0, 10.3)


@pytest.mark.parametrize(
    ("detail", "right"),
    [
        ("0 of 3 epochs", False),
        ("1 of 3 epochs", True),
        ("2 of 3 epochs", True),
        ("3 of 3 epochs", False),
        ("2 of 4 epochs", False),
        ("02 of 3 epochs", False),
        ("-1 of 3 epochs", False),
        ("", False),
    ],
)
def test_who_stopped_has_done_some_epochs_and_not_all(detail: str, right: bool) -> None:
    assert is_epochs_detail(detail, 3) is right
