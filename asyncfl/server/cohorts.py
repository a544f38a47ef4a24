"""Dispatch of tasks: in cohorts, when a version is published, or one at a time, to keep a number of tasks in flight.

For the buffer that a cohort fills, the server counts how many of its updates may still arrive.
"""

from __future__ import annotations

from asyncfl.base.messages import Action, CohortRepeated, Dispatch, SetTimer
from asyncfl.base.streams import RandomOrder, Streams
from asyncfl.server.dispatch import BufferStatus
from asyncfl.server.population import Population
from asyncfl.server.protocol import Protocol
from asyncfl.server.tasks import TaskRecord, TaskTable


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
        self._wanted = protocol.dispatch.wanted(clients)
        self._streams = streams
        self._begun_singly = 0
        self._cohorts = 0
        self._draws: dict[int, int] = {}
        """Version of the latest cohort -> number of draws for that version so far."""
        self._cohort = 0
        self._coming = 0
        self._unreached = 0
        self._repeating = False

    @property
    def startable(self) -> int:
        """Number of tasks that can begin before the next version is published."""
        idle = len(self.population)
        return idle if self._level else min(self._unreached, idle)

    @property
    def has_reserves(self) -> bool:
        """Whether the latest cohort is larger than the number of updates needed."""
        return self._cohort > self._wanted

    def filling(self, held: int) -> BufferStatus:
        """Return the state of a buffer that holds `held` updates, for the rule that decides when it is aggregated."""
        coming = self._coming if self.protocol.late == "drop" else len(self.tasks.in_flight)
        return BufferStatus(held, coming, self._cohort, self._wanted, self.deadline_passed)

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
            self._unreached += whole
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
        `actions`. No effect without cohorts."""
        if not self._at_publish:
            return
        self._cohorts += 1
        self._cohort = self._coming = self._unreached = 0
        self._enlarge(self._at_publish, version, time_s, actions)
        self.deadline_passed = False
        if (seconds := self.protocol.opening.seconds) is not None:
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
            order = self._streams.order("selection", number=self._begun_singly)
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
        served = self.population.served
        for client in drawn:
            task = self.tasks.begin(client, version, int(served[client]), cohort, time_s)
            served[client] += 1
            actions.append(Dispatch(task.number, client, version))
        return len(drawn)
