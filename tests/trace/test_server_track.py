"""The buffers that made a seed's versions, worked out by hand."""

from dataclasses import astuple
from typing import Any

import pytest

from asyncfl.trace import Kind
from asyncfl.trace.server_track import buffer_spans
from asyncfl.trace.tasks import tasks_of
from tests.trace.conftest import trace_of

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
