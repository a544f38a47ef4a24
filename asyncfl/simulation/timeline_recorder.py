"""Recording of a simulated seed, in which many events are known before they happen.

Where no capacity is shared, the phases of a task follow from its begin: its events are handed over at once, and put at
their places in columns later. An event of a task that is handed over in step s of the clock comes right before the
first step after s that is not before it in the order of time, priority and number (`event_order`): a queue that holds
the event and those of the steps gives it out there. The last event of a task is itself a step; a task in columns hands
it over when it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.base.arrays import Floats, Ints
from asyncfl.protocol.events import Kind
from asyncfl.protocol.recorder import EVENT_COLUMNS, NAN, Columns, Recorder
from asyncfl.protocol.task_record import EventColumns
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import TaskEvent
from asyncfl.simulation.task_columns import TaskColumns

_FIELDS = np.dtype(
    [
        *(("time_s", np.float64), ("task", np.int64), ("place", np.int64), ("step", np.int64), ("kind", np.int8)),
        *(("client", np.int64), ("base_version", np.int64), ("bytes", np.int64), ("attempt", np.int16)),
        *(("detail", np.int32), ("stage", np.int8), ("before", np.int64)),
    ]
)
"""Columns of an event of a task. `place`: among those of its task; `step`: of the clock, in which it was handed over;
`stage`: see `FORESEEN`; `before`: number of events recorded before it since the last flush, -1: not known yet."""

FORESEEN, LAST, BEGIN = range(3)
"""Stages of a step of the clock: events that were foreseen come before it, and the last event of a task is the first of
its step. Tasks begin in it."""


class TimelineRecorder(Recorder):
    """Events of one seed on the virtual clock, in order; spooled to disk, see `Recorder`."""

    def __init__(self, seed: int, whole: bool = True) -> None:
        super().__init__(seed, whole)
        self._foreseen: list[TaskEvent] = []
        """Events handed over since the last flush."""
        self._owners: list[int] = []
        """Five integers for each task whose events were handed over since: its number, its client, its base version,
        the step of the clock in which it began, and how many of the events are its own."""
        self._in_columns: dict[TaskColumns, list[float]] = {}
        """The same for tasks in columns: six numbers for each, its row, its number, its base version, the step in
        which it began, the time, and the length of `values` then."""
        self._ended: dict[TaskColumns, list[float]] = {}
        """The same of tasks in columns at their end."""
        self._pending = np.empty(0, dtype=_FIELDS)
        """Events handed over before, that had not happened at the last flush."""
        self._steps_s: list[float] = []
        """Time of each step of the clock since the last flush, and of those before at the same time as the last."""
        self._orders: list[EventOrder] = []
        """Its place among the steps of that time."""
        self._rows: list[int] = []
        """Number of events recorded since the last flush, when it began."""
        self._first_step = 0
        """Number of the first of these steps."""
        self._version = -1
        """Version at the last flush."""

    def begin_step(self, time_s: float, order: EventOrder) -> None:
        """Begin a step of the clock. `order`: place among the steps of that time."""
        self._steps_s.append(time_s)
        self._orders.append(order)
        self._rows.append(len(self.values))

    def foresee(self, task: int, client: int, base_version: int, events: Sequence[TaskEvent]) -> int:
        """Hand over events of a task, in order, that happen in later steps. Returns the number of the current step."""
        step = self._first_step + len(self._steps_s) - 1
        self._foreseen += events
        self._owners += (task, client, base_version, step, len(events))
        return step

    def foresee_in_columns(self, columns: TaskColumns, row: int, task: int, base_version: int, began_s: float) -> int:
        """Hand over the events of a task in `columns` that begins now. Returns the number of the current step."""
        step = self._first_step + len(self._steps_s) - 1
        if (begun := self._in_columns.get(columns)) is None:
            begun = self._in_columns[columns] = []
        begun += (row, task, base_version, step, began_s, len(self.values))
        return step

    def end_in_columns(self, columns: TaskColumns, row: int, task: int, base_version: int) -> None:
        """Hand over the last event of a task in `columns`, which happens now."""
        step = self._first_step + len(self._steps_s) - 1
        if (ended := self._ended.get(columns)) is None:
            ended = self._ended[columns] = []
        ended += (row, task, base_version, step, self._steps_s[-1], len(self.values))

    def has_passed(self, time_s: float, task: int, step: int) -> bool:
        """Whether an event of a task, handed over in a step, comes before the current step."""
        if not self._steps_s or time_s > self._steps_s[-1]:
            return False
        return time_s < self._steps_s[-1] or self._later_step(time_s, task, step) < len(self._steps_s)

    def _later_step(self, time_s: float, task: int, step: int) -> int:
        """Return the place in the list of the first step before which an event comes that has the time of the last."""
        key, place = (Priority.TASK, task, 0), len(self._steps_s) - 1
        while place >= 0 and self._steps_s[place] == time_s:
            place -= 1
        place = max(place + 1, step + 1 - self._first_step)
        while place < len(self._orders) and self._orders[place] < key:
            place += 1
        return place

    # --- columns ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Put the latest events in order and move them to disk."""
        columns, self._pending = self._in_order()
        self._put(columns)
        if len(columns["version"]):
            self._version = int(columns["version"][-1])
        self._foreseen, self._owners, self._in_columns, self._ended = [], [], {}, {}
        kept = len(self._steps_s)
        while kept and self._steps_s[kept - 1] == self._steps_s[-1]:
            kept -= 1
        self._first_step += kept
        self._steps_s, self._orders = self._steps_s[kept:], self._orders[kept:]
        self._rows = [0] * len(self._steps_s)
        self.values.clear()

    def table(self) -> pa.Table:
        """Return all events so far, in order. It can be called at any time."""
        return self._table(self._in_order()[0])

    def _in_order(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        """Return the events since the last flush in order, and those handed over that have not happened yet."""
        set_aside = len(self.set_aside)
        recorded = self._columns()
        known = np.concatenate([self._pending, *self._handed_over()])
        is_foreseen = known["stage"] == FORESEEN
        places = np.where(is_foreseen, -1, known["step"] - self._first_step)
        if self._steps_s:
            come = np.flatnonzero(is_foreseen & (known["time_s"] <= self._steps_s[-1]))
            places[come] = self._places(known[come])
        happened = ~is_foreseen | (places >= 0)
        if not happened.any():
            return recorded, known
        waiting = known[~happened]
        events, places = known[happened], places[happened]
        before = np.where(events["stage"] == FORESEEN, np.array([*self._rows, 0])[places], events["before"])
        before //= len(EVENT_COLUMNS)
        if len(self.set_aside) > set_aside:
            # Some could not be recorded: those after them are nearer to the front.
            before = np.minimum(before, len(recorded["time_s"]))
        order = np.lexsort((events["place"], events["task"], events["time_s"], events["stage"], places))
        return self._merged(recorded, events[order], before[order]), waiting

    def _handed_over(self) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the events handed over since the last flush in columns."""
        if self._foreseen:
            yield self._handed_over_alone()
        for columns, begun in self._in_columns.items():
            rows, *owners, began_s, before = np.array(begun).reshape(-1, 6).T
            chosen = rows.astype(np.int64)
            for place, events in enumerate(columns.events(chosen, began_s)):
                made = self._made(events, columns.clients[chosen], owners, place)
                if events.kind is Kind.DOWNLOAD_STARTED:
                    made["stage"], made["before"] = BEGIN, before
                yield made
        for columns, ended in self._ended.items():
            rows, *owners, ended_s, before = np.array(ended).reshape(-1, 6).T
            chosen = rows.astype(np.int64)
            for events in columns.last_events(chosen, ended_s):
                made = self._made(events, columns.clients[chosen], owners, 0)
                made["stage"], made["before"] = LAST, before[events.rows]
                yield made

    def _made(self, events: EventColumns, clients: Ints, owners: list[Floats], place: int) -> np.ndarray[Any, Any]:
        """Return foreseen events of tasks in columns. `clients`: (n,) of the tasks; `owners`: numbers, base versions
        and steps, (n,) each; `place`: see `_FIELDS`."""
        made = np.empty(len(events.rows), dtype=_FIELDS)
        for name, values in zip(("task", "base_version", "step"), owners, strict=True):
            made[name] = values[events.rows]
        made["client"] = clients[events.rows]
        made["place"], made["kind"], made["time_s"] = place, self._code("kind", events.kind), events.time_s
        made["bytes"], made["attempt"] = events.size, events.attempt
        made["detail"] = self._code("detail", events.detail)
        made["stage"], made["before"] = FORESEEN, -1
        return made

    def _handed_over_alone(self) -> np.ndarray[Any, Any]:
        """Return the events of tasks that were planned alone."""
        made = np.empty(len(self._foreseen), dtype=_FIELDS)
        owners = np.array(self._owners, dtype=np.int64).reshape(-1, 5)
        number = owners[:, 4]
        for column, name in enumerate(("task", "client", "base_version", "step")):
            made[name] = np.repeat(owners[:, column], number)
        made["place"] = np.arange(len(made)) - np.repeat(np.cumsum(number) - number, number)
        kinds, made["time_s"], made["bytes"], made["attempt"], details = zip(*self._foreseen, strict=True)
        for name, texts in (("kind", kinds), ("detail", details)):
            codes = {text: self._code(name, text) for text in dict.fromkeys(texts)}
            made[name] = [*map(codes.__getitem__, texts)]
        made["stage"], made["before"] = FORESEEN, -1
        return made

    def _places(self, events: np.ndarray[Any, Any]) -> Ints:
        """Return for each event the place in the list of the step before which it comes; -1: it has not happened."""
        steps_s, number = np.array(self._steps_s), len(self._steps_s)
        times = events["time_s"]
        first = np.searchsorted(steps_s, times, "right")
        begins = np.searchsorted(steps_s, times, "left")
        tied = np.flatnonzero(begins < first)
        tied = tied[np.argsort(times[tied], kind="stable")]
        for these in np.split(tied, 1 + np.flatnonzero(np.diff(times[tied]))) if len(tied) else ():
            begin, end = int(begins[these[0]]), int(first[these[0]])
            first[these] = self._tied_places(events[these], begin, end)
        found: Ints = np.where(first < number, first, -1)
        return found

    def _tied_places(self, events: np.ndarray[Any, Any], begin: int, end: int) -> Ints:
        """Return as `_places` for events whose time is that of the steps `begin`..`end` - 1; `end` for those that come
        after these."""
        keys = np.array([(one[0] << 48) + (one[1] << 2) + one[2] for one in self._orders[begin:end]])
        wanted = (int(Priority.TASK) << 48) + (events["task"] << 2)
        earliest = np.maximum(events["step"] + 1 - self._first_step - begin, 0)
        if (keys[1:] >= keys[:-1]).all():
            sorted_in: Ints = begin + np.minimum(np.maximum(np.searchsorted(keys, wanted), earliest), end - begin)
            return sorted_in
        found = np.empty(len(events), dtype=np.int64)
        for row, (key, least) in enumerate(zip(wanted.tolist(), earliest.tolist(), strict=True)):
            later = np.flatnonzero(keys[least:] >= key)
            found[row] = begin + least + int(later[0]) if len(later) else end
        return found

    def _merged(self, recorded: Columns, events: np.ndarray[Any, Any], before: Ints) -> Columns:
        """Return the recorded events with others between them. `before`: row that each comes before."""
        all_of_them = len(recorded["time_s"]) + len(events)
        places = before + np.arange(len(events))
        others = np.ones(all_of_them, dtype=np.bool_)
        others[places] = False
        constants = {"version": np.append(self._version, recorded["version"])[before], "staleness": -1, "weight": NAN}
        made: Columns = {}
        for name, values in recorded.items():
            made[name] = column = np.empty(all_of_them, dtype=values.dtype)
            column[others] = values
            column[places] = constants[name] if name in constants else events[name]
        return made
