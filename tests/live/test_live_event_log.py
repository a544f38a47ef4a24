"""Events go to the recorder in order of time, once nothing earlier can be told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.live.live_event_log import LiveEventLog
from asyncfl.trace import Kind


def begun(earliest_s: float = 0.0) -> tuple[LiveEventLog, Any, list[tuple[Any, ...]]]:
    written: list[tuple[Any, ...]] = []
    recorder: Any = SimpleNamespace(add=lambda *event: written.append(event))
    clock: Any = SimpleNamespace(now=0.0)
    return LiveEventLog(recorder, clock, lambda: earliest_s), clock, written


def test_an_event_has_the_version_that_was_out_when_it_happened() -> None:
    event_log, clock, written = begun()
    assert event_log.version == 0
    for version, time_s in enumerate((1.0, 2.0, 4.0)):
        clock.now = time_s
        event_log.version = version
    assert (event_log.version, event_log.now) == (2, 4.0)
    task = TaskInFlight(7, 3, 1)
    for time_s in (0.5, 1.0, 1.9, 2.0, 3.9, 4.0, 9.0):
        event_log.place(time_s, Kind.TRAINED, task, staleness=1, size=2, attempt=3, weight=0.5, detail="said")
    event_log.place(2.5, Kind.BANNED, None, 6)
    event_log.flush(float("inf"))
    assert [event[4] for event in written] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert written[0] == (0.5, Kind.TRAINED, 7, 3, 0, 1, 1, 2, 3, 0.5, "said")
    banned = next(event for event in written if event[1] is Kind.BANNED)
    assert banned[:9] == (2.5, Kind.BANNED, -1, 6, 1, -1, -1, -1, -1)
    assert banned[9] != banned[9], "NaN: it has no weight"


def test_late_events_are_sorted_in_and_equal_times_keep_their_order() -> None:
    event_log, _, written = begun()
    for client, time_s in enumerate((3.0, 1.0, 2.0, 1.0)):
        event_log.place(time_s, Kind.WENT_OFFLINE, None, client)
    event_log.flush(0.9)
    assert written == []
    event_log.flush(2.0)
    assert [event[3] for event in written] == [1, 3, 2]
    event_log.place(2.5, Kind.CAME_ONLINE, None, 9)
    event_log.flush(float("inf"))
    assert [event[3] for event in written] == [1, 3, 2, 9, 0]
