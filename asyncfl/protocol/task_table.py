"""The tasks that a server has open (`task_record`), and their dispatch.

Fates are counted here alone. Tasks begin in cohorts, when a
version is published, or one at a time, to keep a number of tasks in flight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.streams import RandomOrder, Streams
from asyncfl.protocol.dispatch import BufferStatus
from asyncfl.protocol.messages import Action, CohortRepeated, Dispatch, Download, Fate, SetTimer, Settle
from asyncfl.protocol.population import Population
from asyncfl.protocol.selection import UniformSelection
from asyncfl.protocol.settings import Protocol
from asyncfl.protocol.task_record import TaskRecord

SAME_TIME_S = 1e-9
"""Seconds within which two times are the same, since sums of floats differ in their last digits."""


class TaskTable:
    """The tasks of one run, and the versions that open tasks are trained from.

    A task is open until its fate is known, in flight until its update arrives or is known to be lost, and unanswered
    until its client reports its end, whatever its fate. The model that clients were sent of a version is kept as long
    as an open task needs it. The newest model is always kept.
    """

    def __init__(self) -> None:
        self.open: dict[int, TaskRecord] = {}
        self.in_flight: dict[int, TaskRecord] = {}
        self.unanswered: dict[int, TaskRecord] = {}
        self.settled: dict[int, TaskRecord] = {}
        """Tasks whose fate the driver has yet to record, and then removes here."""
        self.busy: dict[int, int] = {}
        """Client -> number of its unanswered tasks, if it has any."""
        self.open_of: dict[int, int] = {}
        """Client -> number of its open tasks, if it has any."""
        self.fates: Counter[Fate] = Counter()
        self.used = 0
        """Number of tasks whose update had a weight above 0 in a model."""
        self.begun = 0
        """Number of tasks so far, including withdrawn ones."""
        self.withdrawn = 0
        """Number of tasks that never began because their client could not be reached."""
        self.current: Vector = np.empty(0, dtype=np.float32)
        """(d,) the newest model, before compression for download."""
        self._collected: Sequence[TaskRecord] = ()
        self._downloads: dict[int, Download] = {}
        self._needed: Counter[int] = Counter()
        self._newest = -1

    def __contains__(self, number: int) -> bool:
        """Whether the driver has yet to record the fate of that task."""
        return number in self.open or number in self.settled

    # --- models ----------------------------------------------------------------------------------------------------

    def publish(self, version: int, model: Vector, download: Download | None = None) -> None:
        """Store the newest version; forget the previous one if no open task needs it. `download`: the compressed model
        that clients are sent; None if they are sent `model`."""
        previous, self._newest = self._newest, version
        self.current = model
        self._downloads[version] = download or Download(model)
        self._forget(previous)

    def model(self, version: int) -> Vector:
        """Return the (d,) model that clients were sent as `version`. Raises KeyError if no open task needs it."""
        return self._downloads[version].model

    def download(self, version: int) -> Download:
        """Return the download of `version`. Raises KeyError if no open task needs it."""
        return self._downloads[version]

    def _forget(self, version: int) -> None:
        if version != self._newest and not self._needed[version]:
            self._downloads.pop(version, None)
            self._needed.pop(version, None)

    # --- from dispatch to fate -------------------------------------------------------------------------------------

    def begin(self, client: int, base_version: int, turn: int = 0, cohort: int = -1, time_s: float = 0.0) -> TaskRecord:
        """Add a task and return it. Tasks are numbered 0, 1, 2, ... in the order in which they begin."""
        task = TaskRecord(self.begun, client, base_version, turn, cohort, time_s)
        self.begun += 1
        self.open[task.number] = self.in_flight[task.number] = self.unanswered[task.number] = task
        self.busy[client] = self.busy.get(client, 0) + 1
        self.open_of[client] = self.open_of.get(client, 0) + 1
        self._needed[base_version] += 1
        return task

    def answer(self, number: int) -> None:
        """Record that the client has reported the end of a task. No effect if it had before."""
        if (task := self.unanswered.pop(number, None)) is not None:
            _take_one(self.busy, task.client)

    def unanswered_of(self, client: int) -> tuple[int, ...]:
        """Return the tasks that the client has not answered."""
        return tuple(number for number, task in self.unanswered.items() if task.client == client)

    def withdraw(self, number: int) -> None:
        """Remove a task that never began because its client could not be reached. It has no fate."""
        self._close(number)
        self.withdrawn += 1

    def settle(self, number: int, fate: Fate, *, weight: float = 0.0, staleness: int = -1, detail: str = "") -> Settle:
        """Close a task with its fate, and return the action that records it, see `Settle`."""
        self.settled[number] = self._close(number)
        self.fates[fate] += 1
        self.used += weight > 0
        return Settle(number, fate, staleness, weight, detail)

    def _close(self, number: int) -> TaskRecord:
        task = self.open.pop(number)
        version, needed = task.base_version, self._needed
        _take_one(self.open_of, task.client)
        needed[version] -= 1
        if not needed[version]:
            self._forget(version)
        return task

    def check(self) -> None:
        """Raise AssertionError unless each task is open, withdrawn or has exactly one fate."""
        accounted = len(self.open) + self.withdrawn + sum(self.fates.values())
        if accounted != self.begun:
            raise AssertionError(f"{self.begun} tasks were begun, {accounted} are accounted for")

    def collect(self, numbers: tuple[int, ...]) -> Sequence[TaskRecord]:
        """Return the tasks of a buffer that is collected, in its order. `collected` yields them from then on."""
        self._collected = [self.open[number] for number in numbers]
        return self._collected

    def collected(self) -> Iterator[TaskRecord]:
        """Yield the tasks of the last collected buffer whose fate is not recorded yet."""
        return (task for task in self._collected if task.number in self)


def _take_one(numbers: dict[int, int], client: int) -> None:
    """Count one task of the client less. A client without a task is not kept: there may be millions."""
    left = numbers.pop(client) - 1
    if left:
        numbers[client] = left


class Cohorts:
    """Dispatch of the tasks of one server. `streams` supply the random order in which clients are drawn. The order of a
    cohort depends on its version. The order of tasks that begin one at a time depends on the number of such tasks
    before."""

    def __init__(self, protocol: Protocol, population: Population, tasks: TaskTable, streams: Streams) -> None:
        self.protocol = protocol
        self.population = population
        self.tasks = tasks
        self.deadline_passed = False
        """Whether the deadline of the latest cohort has passed."""
        clients = population.clients
        self._level, self._at_publish = protocol.dispatch.level(clients), protocol.dispatch.at_publish(clients)
        self._asked_for = protocol.dispatch.wanted(clients)
        self._independent, self._drops_late = protocol.selection.independent, protocol.late == "drop"
        self._deadline_s = protocol.opening.seconds
        self._poll_s = protocol.opening.poll_s
        self._published_s = 0.0
        """Time at which the latest version was published."""
        self._poll_is_set = False
        """Whether a timer is set for the next look at the buffer."""
        self._streams = streams
        self._begun_singly = 0
        self._orders: dict[int, RandomOrder] = {}
        """Orders of draws that are likely to come."""
        self._cohorts = 0
        self._draws: dict[int, int] = {}
        """Version of the latest cohort -> number of draws for that version so far."""
        self._cohort = 0
        self._coming = 0
        self._unreached = 0
        self._repeating = False
        self.drew_none = False
        """Whether the last draw chose none of the idle clients."""

    @property
    def startable(self) -> int:
        """Number of tasks that can begin before the next version is published."""
        idle = len(self.population)
        return idle if self._level else min(self._unreached, idle)

    def likely(self, count: int) -> list[tuple[int, int]]:
        """Return the clients that are most likely drawn next, if tasks begin one at a time, each with the number of its
        tasks before; at most `count`, none where nothing is likely."""
        if not (self._level and isinstance(self.protocol.selection, UniformSelection)):
            return []
        population, clients = self.population, self.population.clients
        self._orders = {number: self._order(number) for number in range(self._begun_singly, self._begun_singly + count)}
        orders = [*self._orders.values()]
        drawn = RandomOrder.first_proposals(orders, clients)
        # Where the client that is drawn first has a task, the next one is drawn, as in `Population.draw`.
        drawn = [
            first if population.is_idle(first) else order.proposal(clients, 2)
            for order, first in zip(orders, drawn, strict=True)
        ]
        return [(client, population.served.item(client)) for client in drawn if population.is_idle(client)]

    def _order(self, number: int) -> RandomOrder:
        """Return the order in which clients are drawn after `number` tasks that began one at a time."""
        found = self._orders.pop(number, None)
        return self._streams.order("selection", number=number) if found is None else found

    @property
    def drew_nobody(self) -> bool:
        """Whether each client was drawn by itself for the latest cohort, and none was. Its version is then made of no
        update: another draw would tell that this one was empty."""
        return self._independent and self.drew_none and not self._cohort

    @property
    def _wanted(self) -> int:
        """Number of updates that the latest cohort is asked for."""
        return self._cohort if self._independent else self._asked_for

    @property
    def has_reserves(self) -> bool:
        """Whether the latest cohort is larger than the number of updates needed."""
        return self._cohort > self._wanted

    @property
    def coming(self) -> int:
        """Number of tasks in flight whose update can still enter the current buffer."""
        return self._coming if self._drops_late else len(self.tasks.in_flight)

    def filling(self, held: int, *, is_last: bool = False) -> BufferStatus:
        """Return the state of a buffer that holds `held` updates, for the rule that decides when it is aggregated.
        `is_last`: whether it makes the last version."""
        return BufferStatus(held, self.coming, self._cohort, self._wanted, self.deadline_passed, is_last)

    def waits_for_poll(self, version: int, time_s: float, actions: list[Action]) -> bool:
        """Return whether a buffer that could be aggregated now must wait until the server looks at it again. Appends
        the timer of that look to `actions`, unless it is set. `version`: the latest version."""
        if self._poll_s is None:
            return False
        since_s = time_s - self._published_s
        if since_s <= SAME_TIME_S:
            return False
        if not self._poll_is_set:
            self._poll_is_set = True
            looks = math.ceil(since_s / self._poll_s - SAME_TIME_S)
            actions.append(SetTimer(f"poll:{version}", max(0.0, looks * self._poll_s - since_s)))
        return True

    def poll(self) -> None:
        """Record that the timer of the next look at the buffer has fired."""
        self._poll_is_set = False

    def deadline(self, cohort: int) -> None:
        """Record that the deadline of cohort number `cohort` (from 0) has passed. No effect once another cohort has
        been drawn."""
        self.deadline_passed |= cohort == self._cohorts - 1

    # --- ends ------------------------------------------------------------------------------------------------------

    def end(self, number: int, awaited: int | None) -> TaskRecord | None:
        """Remove task `number` from the tasks in flight and return it; None if it was not in flight. `awaited`: version
        whose cohort fills the current buffer; None if no buffer is being filled."""
        task = self.tasks.in_flight.pop(number, None)
        if task is not None and task.cohort == awaited:
            self._coming -= 1
        return task

    def withdraw(self, number: int, awaited: int | None) -> None:
        """Remove a task that never began because its client cannot be reached; `refill` draws another client.
        `awaited`: see `end`."""
        # Draw a replacement only while no client of the cohort has answered: none may be drawn for it twice.
        whole = self._coming == self._cohort
        task = self.end(number, awaited)
        if task is None:
            return
        if task.cohort == awaited:
            self._cohort -= 1
            # Where each client is drawn by itself, none takes the place of another.
            self._unreached += whole and not self._independent
        self.tasks.withdraw(number)
        self.population.served[task.client] -= 1

    def remove(self, client: int, awaited: int | None) -> list[TaskRecord]:
        """Remove and return all tasks of `client`, for whose updates the server no longer waits. `awaited`: see
        `end`."""
        removed = [task for task in self.tasks.in_flight.values() if task.client == client]
        for task in removed:
            self.end(task.number, awaited)
        return removed

    # --- beginnings ------------------------------------------------------------------------------------------------

    def begin_cohort(self, version: int, time_s: float, actions: list[Action]) -> None:
        """Draw the cohort of `version`, which has just been published, and append its dispatches and deadline to
        `actions`. Without cohorts only the time is kept."""
        self._published_s = time_s
        if not self._at_publish:
            return
        self._cohorts += 1
        self._cohort = self._coming = self._unreached = 0
        self._enlarge(self._at_publish, version, time_s, actions)
        self.deadline_passed = False
        if (seconds := self._deadline_s) is not None:
            # The deadline is the cohort's, not the version's: a repeated cohort has a deadline of its own.
            actions.append(SetTimer(f"deadline:{self._cohorts - 1}", seconds))

    def _enlarge(self, number: int, version: int, time_s: float, actions: list[Action]) -> None:
        before = self._draws.get(version, 0)
        order = self._streams.order("cohorts", before, version)
        self._draws = {version: before + 1}
        drawn = self._begin(number, order, version, version, time_s, actions)
        self._cohort += drawn
        self._coming += drawn

    def refill(self, version: int, time_s: float, actions: list[Action], *, is_empty: bool) -> None:
        """Begin the tasks that are missing, and append their dispatches to `actions`. These are replacements for
        unreachable clients of the cohort, tasks to keep a constant number in flight, or another cohort if no update of
        the last can arrive. `is_empty`: whether a buffer is being filled and holds no update yet."""
        missing = self._level - len(self.tasks.in_flight)
        unreached, self._unreached = self._unreached, 0
        if unreached and len(self.population):
            # An unreachable client is known at once, as with a constant number of tasks: draw another.
            self._enlarge(unreached, version, time_s, actions)
        elif missing > 0:
            order = self._order(self._begun_singly)
            self._begun_singly += self._begin(missing, order, version, -1, time_s, actions)
        elif is_empty and self._failed:
            # Either no client was idle when the version was published, and one is now. Or the whole cohort was lost:
            # then wait for all clients that become idle at this same time, so that each may be drawn.
            if not self._cohort:
                self.begin_cohort(version, time_s, actions)
            elif not self._repeating:
                self._repeating = True
                actions.append(SetTimer("cohort", 0.0))

    def repeat(self, version: int, time_s: float, actions: list[Action], *, is_empty: bool) -> None:
        """Draw another cohort for the same version if no update of the last one can arrive, and append the actions to
        `actions`. `is_empty`: see `refill`."""
        self._repeating = False
        if is_empty and self._failed:
            actions.append(CohortRepeated(self._cohort))
            self.begin_cohort(version, time_s, actions)

    @property
    def _failed(self) -> bool:
        """Whether no update of the cohort can arrive any more, while some client is idle."""
        return self._at_publish > 0 and not self.filling(0).coming and len(self.population) > 0

    def _begin(
        self, number: int, order: RandomOrder, version: int, cohort: int, time_s: float, actions: list[Action]
    ) -> int:
        drawn = self.protocol.selection.draw(self.population, number, order)
        self.drew_none = not drawn and number > 0 and len(self.population) > 0
        served = self.population.served
        for client in drawn:
            turn = served.item(client)
            task = self.tasks.begin(client, version, turn, cohort, time_s)
            served[client] = turn + 1
            actions.append(Dispatch(task.number, client, version))
        return len(drawn)
