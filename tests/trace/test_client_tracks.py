"""Tracks of clients in a Chrome trace: marks, absences, and counters."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.trace import Kind, client_tracks
from asyncfl.trace.client_tracks import client_instants, offline_slices
from asyncfl.trace.perfetto import chrome_trace
from asyncfl.trace.tracks import Tracks, counter_of
from tests.trace.conftest import trace_of

TRACKS = Tracks(pid=1, seeds=1, clients=1)


def test_marks_name_their_task_and_number_of_transmissions() -> None:
    events = trace_of(
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


def test_an_absence_lasts_from_its_first_event_to_the_next_task_or_the_end() -> None:
    events = trace_of(
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
def test_a_trace_written_in_chunks_is_the_same(story: pa.Table, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    whole = list(chrome_trace(story, "x"))
    monkeypatch.setattr(client_tracks, "CHUNK", chunk)
    assert list(chrome_trace(story, "x")) == whole


def test_a_counter_has_the_last_value_of_a_moment_and_only_changes() -> None:
    times, values = np.array([0, 0, 5, 7, 7, 9]), np.array([1, 2, 2, 3, 4, 4])
    points = [json.loads(one) for one in counter_of("held", "updates", times, values, TRACKS)]
    assert [(one["ts"], one["args"]) for one in points] == [(0, {"updates": 2}), (7, {"updates": 4})]
    assert list(counter_of("held", "updates", times[:0], values[:0], TRACKS)) == []
