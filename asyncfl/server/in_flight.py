"""Tasks in flight: begun with a client, and neither arrived nor known to be lost.

Clients are asked in cohorts, when a version is published, or one at a time, to keep a level of tasks in flight. Of a
cohort it is counted how many may still come, for the buffer that is filled with it: who leaves once that buffer is
open, leaves another count.
"""

from __future__ import annotations

from asyncfl.messages import Action, CohortRepeated, Dispatch, SetTimer
from asyncfl.server.buffer_opening import BufferStatus
from asyncfl.server.population import Population
from asyncfl.server.protocol import Protocol
from asyncfl.server.task_table import TaskRecord, TaskTable
from asyncfl.streams import RandomOrder, Streams


class InFlight:
    """The tasks that one server waits for. `streams` draw whom it asks.

    A cohort is drawn in an order that belongs to its version, and tasks that begin one at a time in one that belongs to
    how many began before them.
    """

    def __init__(self, protocol: Protocol, population: Population, book: TaskTable, streams: Streams) -> None:
        self.protocol = protocol
        self.dispatch, self.opening = protocol.dispatch, protocol.opening
        self.population = population
        self.book = book
        self.deadline_passed = False
        """Whether the time is up within which the last cohort should have come."""
        self._streams = streams
        self._begun_singly = 0
        self._cohorts = 0
        self._draws: dict[int, int] = {}
        """The version that a cohort was drawn for last -> cohorts and parts of cohorts that were drawn for it."""
        self._tasks: dict[int, TaskRecord] = {}
        self._cohort = 0
        self._cohort_coming = 0
        self._unreached = 0
        self._repeating = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def clients(self) -> int:
        """Clients of the federation."""
        return self.population.clients

    @property
    def startable(self) -> int:
        """Tasks that can be begun now, without a new version."""
        idle = len(self.population)
        return idle if self.dispatch.level(self.clients) else min(self._unreached, idle)

    @property
    def has_reserves(self) -> bool:
        """Whether the last cohort is larger than what is needed of it."""
        return self._cohort > self.dispatch.wanted(self.clients)

    def filling(self, held: int) -> BufferStatus:
        """What an opening rule may look at, where the buffer holds `held` updates."""
        coming = self._cohort_coming if self.protocol.late == "drop" else len(self)
        wanted = self.dispatch.wanted(self.clients)
        return BufferStatus(held, coming, self._cohort, wanted, self.deadline_passed)

    def deadline(self, cohort: int) -> None:
        """The time is up of that cohort, counted from 0; it means nothing once another has been asked."""
        self.deadline_passed |= cohort == self._cohorts - 1

    # --- ends ------------------------------------------------------------------------------------------------------

    def end(self, number: int, awaited: int | None) -> TaskRecord | None:
        """The task of that number, which is in flight no longer; None: it was not.

        `awaited`: version whose cohort the buffer is filled with; None: no buffer is being filled.
        """
        task = self._tasks.pop(number, None)
        if task is not None and task.cohort == awaited:
            self._cohort_coming -= 1
        return task

    def withdraw(self, number: int, awaited: int | None) -> TaskRecord | None:
        """As `end`, for a task that never began, its client cannot be reached: `refill` draws another in its place."""
        # Only while nobody of the cohort is done: a client that has answered must not be drawn for it again.
        whole = self._cohort_coming == self._cohort
        task = self.end(number, awaited)
        if task is not None and task.cohort == awaited:
            self._cohort -= 1
            self._unreached += whole
        return task

    def remove(self, client: int, awaited: int | None) -> list[TaskRecord]:
        """All tasks of `client`, which nobody waits for any more. `awaited`: see `end`."""
        removed = [task for task in self._tasks.values() if task.client == client]
        for task in removed:
            self.end(task.number, awaited)
        return removed

    def clear(self) -> list[TaskRecord]:
        """All tasks, which nobody waits for any more."""
        removed = list(self._tasks.values())
        self._tasks = {}
        return removed

    # --- beginnings ------------------------------------------------------------------------------------------------

    def begin_cohort(self, version: int, time_s: float, actions: list[Action]) -> None:
        """Ask the cohort of `version`, which has just been published; nobody where clients are not asked in cohorts."""
        number = self.dispatch.at_publish(self.clients)
        if not number:
            return
        self._cohorts += 1
        self._cohort = self._cohort_coming = self._unreached = 0
        self._enlarge_cohort(number, version, time_s, actions)
        self.deadline_passed = False
        if (seconds := self.opening.seconds) is not None:
            # Of the cohort, not of its version: a cohort that is asked again for one has a time of its own.
            actions.append(SetTimer(f"deadline:{self._cohorts - 1}", seconds))

    def _enlarge_cohort(self, number: int, version: int, time_s: float, actions: list[Action]) -> None:
        before = self._draws.get(version, 0)
        order = self._streams.order("cohorts", before, version)
        self._draws = {version: before + 1}
        drawn = self._begin(number, order, version, version, time_s, actions)
        self._cohort += drawn
        self._cohort_coming += drawn

    def refill(self, version: int, time_s: float, actions: list[Action], *, is_empty: bool) -> None:
        """Begin the tasks that are missing. `is_empty`: whether a buffer is being filled that holds nothing yet."""
        missing = self.dispatch.level(self.clients) - len(self)
        unreached, self._unreached = self._unreached, 0
        if unreached and len(self.population):
            # As where a level is kept: who cannot be reached is known at once, and another is asked.
            self._enlarge_cohort(unreached, version, time_s, actions)
        elif missing > 0:
            order = self._streams.order("selection", number=self._begun_singly)
            self._begun_singly += self._begin(missing, order, version, -1, time_s, actions)
        elif is_empty and self._came_to_nothing:
            # Nobody could be drawn when the last version came out, somebody can now. Or all of the last cohort was
            # lost: then those who ask again at this moment shall be among the next, too.
            if not self._cohort:
                self.begin_cohort(version, time_s, actions)
            elif not self._repeating:
                self._repeating = True
                actions.append(SetTimer("cohort", 0.0))

    def repeat_cohort(self, version: int, time_s: float, actions: list[Action], *, is_empty: bool) -> None:
        """Ask another cohort for the same version, if still nothing came of the last one. `is_empty`: see `refill`."""
        self._repeating = False
        if is_empty and self._came_to_nothing:
            actions.append(CohortRepeated(self._cohort))
            self.begin_cohort(version, time_s, actions)

    @property
    def _came_to_nothing(self) -> bool:
        """Whether nobody will come who was asked in a cohort, while there are clients that could be asked."""
        in_cohorts = self.dispatch.at_publish(self.clients) > 0
        return in_cohorts and not self.filling(0).coming and len(self.population) > 0

    def _begin(
        self, number: int, order: RandomOrder, version: int, cohort: int, time_s: float, actions: list[Action]
    ) -> int:
        drawn = self.protocol.selection.draw(self.population, number, order)
        for client in drawn:
            task = self.book.begin(client, version, cohort, time_s)
            self._tasks[task.number] = task
            self.population.served[client] += 1
            actions.append(Dispatch(task.number, client, version))
        return len(drawn)
