"""The buffers that made a seed's versions, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

import pytest

from asyncfl.trace import Kind
from asyncfl.trace.perfetto import chrome_trace
from asyncfl.trace.scoring_requests import scoring_requests_of
from asyncfl.trace.server_track import buffer_spans, server_events
from asyncfl.trace.tasks import tasks_of
from asyncfl.trace.tracks import Tracks
from tests.trace.conftest import trace_of

TRACKS = Tracks(pid=1, seeds=1, clients=1)

ENTERS = {"task": 0, "client": 1, "staleness": 0, "weight": 1.0}


@pytest.mark.parametrize(
    ("after", "made"),
    [
        # Nothing has happened since: there is no buffer to show.
        ([], []),
        ([(0.0, Kind.TIMER_FIRED, {})], []),
        ([(2.0, Kind.TIMER_FIRED, {})], [(1, 0.0, 2.0, 2.0, 0)]),
        # A version that nothing entered, at the moment of the first.
        ([(0.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 0.0, 0.0, 0)]),
        ([(3.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 3.0, 3.0, 0)]),
        ([(0.0, Kind.AGGREGATED, ENTERS)], [(1, 0.0, 0.0, 0.0, 1)]),
        ([(2.0, Kind.AGGREGATED, ENTERS), (3.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 2.0, 3.0, 1)]),
        (
            [(1.0, Kind.AGGREGATION_STARTED, {}), (2.0, Kind.AGGREGATED, ENTERS), (3.0, Kind.PUBLISHED, {"version": 1}),
             (4.0, Kind.AGGREGATION_STARTED, {"version": 1}), (5.0, Kind.STOPPED, {"version": 1})],
            [(1, 0.0, 1.0, 3.0, 1), (2, 3.0, 4.0, 5.0, 0)],
        ),
    ],
)  # fmt: skip
def test_when_a_buffer_was_filled_decided_and_published(
    after: list[tuple[float, Kind, dict[str, Any]]], made: list[tuple[Any, ...]]
) -> None:
    begun = [(0.0, Kind.PUBLISHED, {}), (0.0, Kind.DISPATCHED, {"task": 0, "client": 1, "base_version": 0})]
    events = trace_of(*begun, *after, version=0)
    assert [astuple(one) for one in buffer_spans(events, tasks_of(events))] == [(*one, []) for one in made]


def test_scoring_requests_have_a_track_of_their_own() -> None:
    events = trace_of(
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


def test_only_deadlines_and_time_limits_are_marks_of_the_server() -> None:
    events = trace_of(
        *((0.5, Kind.TIMER_FIRED, {"detail": name}) for name in ("deadline:3", "cohort", "time_limit", "x"))
    )
    marks = [json.loads(one) for one in server_events(events, [], TRACKS, None, {})]
    assert [(one["name"], one["tid"], one["args"]) for one in marks] == [
        ("timer fired", 1, {"detail": "deadline:3"}),
        ("timer fired", 1, {"detail": "time_limit"}),
    ]
