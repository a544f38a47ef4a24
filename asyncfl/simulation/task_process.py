"""A client's task as a process, which goes from phase to phase (`phases.TaskPhases`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import simpy

from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.capacity import Sent
from asyncfl.simulation.client_process import ClientProcess
from asyncfl.simulation.clock import Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import LinkMessage, MessageEvent, Phase, TaskPhases

if TYPE_CHECKING:
    from asyncfl.simulation.client_processes import ClientProcesses


class TaskProcess(ClientProcess):
    """A client's task, from its dispatch until the server learns of its end."""

    __slots__ = (
        "_asked_s",
        "_lost",
        "_offline_s",
        "_patience_s",
        "_phase",
        "_phases",
        "_since_s",
        "task",
    )
    part = 0
    _asked_s: float
    """Time at which the client asked for a place to compute."""
    _since_s: float
    """Time since which the client is at the task. Waiting for a place to compute delays it."""
    _offline_s: float
    """Time at which the client goes offline."""
    _patience_s: float
    """Seconds from the begin of the phase until the client gives the task up; inf if that is decided already."""

    def __init__(self, processes: ClientProcesses, task: TaskRecord) -> None:
        super().__init__(processes, task.client, EventOrder(Priority.TASK, task.number))
        self.task = task
        self._phases: TaskPhases | None = None
        """The phases that are left; None before the first."""
        self._phase: Phase | None = None
        """The phase that the client is in, or waits for a place for."""
        self._lost: Moment | None = None
        """When the client is known to have gone offline, with which the task is lost; None while it is online."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Take the client through the phases that are left."""
        processes, clock = self.processes, self.processes.clock
        while self._lost is None:
            phase = self._phase or self._next_phase()
            if self.began_s is None:
                if self.place is not None:
                    if not (yield from self._wait_for_place(self.place)):
                        processes.went_offline(self.task)
                        self._lose()
                        break
                    self._since_s += clock.now - self._asked_s
                self._start(phase)
            broken = yield from self._pass_phase(phase.duration_s)
            if not self._end(phase, broken):
                break
        # Requests for scores that wait for the end of this task fail, as the client has just gone offline.
        if self._lost is not None and processes.latest is not None:
            yield clock.env.timeout_at(self._lost)

    def _next_phase(self) -> Phase:
        """Return the next phase, and ask for a place if the client computes in it."""
        processes, task, is_slowed = self.processes, self.task, False
        now_s = processes.clock.now
        if self._phases is None:
            draws = processes.clock.world.task(task.client, task.turn)
            self._phases, self._since_s = TaskPhases(draws, processes.load, processes.clients.speed(task)), now_s
        if processes.are_shared:
            phase = self._phases.after(now_s - self._since_s)
            message, processors = phase.sending, processes.workers.processors
            # A phase may last longer than its duration.
            is_slowed = processors.are_shared if message is None else message.way in processes.shared
            if phase.patience_s < phase.duration_s and not is_slowed:
                phase = phase.given_up(phase.patience_s)
        else:
            phase = next(self._phases)
        self._phase, self.message = phase, phase.sending
        self._patience_s = phase.patience_s if is_slowed else math.inf
        if phase.sending is None and processes.workers.are_limited:
            self._asked_s = now_s
            self._ask_for_place()
        return phase

    def _start(self, phase: Phase) -> None:
        """Begin a phase."""
        processes, clock, task, message = self.processes, self.processes.clock, self.task, self.message
        if processes.whole:
            clock.record_task(phase.begins, task, -1, -1 if message is None else message.transfer.payload_bytes)
        if phase.begins is Kind.UPLOAD_STARTED and (budgets := processes.clients.budgets) is not None:
            # An upload counts as it begins, whether or not it arrives: it may be overheard.
            budgets.charge_upload(self.client, task.epochs)
            processes.check_budget(self.client, task.turn + 1)
        until = self._offline()
        self._offline_s = until.time_s
        if self._patience_s < math.inf:
            until = min(until, Moment(clock.now + self._patience_s, self.order))
        self._begin_phase(phase.duration_s, until)

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        return partial(self.processes.note, self.task, message.way)

    def _end(self, phase: Phase, broken: Sent | None) -> bool:
        """End a phase, and return whether the task goes on. `broken`: bytes and transmissions that had left, if it was
        broken off."""
        processes, clock, task = self.processes, self.processes.clock, self.task
        assert self.began_s is not None
        goes_offline = broken is not None and self.began_s + self._patience_s >= self._offline_s
        if broken is not None and goes_offline:
            processes.went_offline(task, self.message, broken)
        elif broken is not None:
            phase = phase.given_up(clock.now - self.began_s, None if self.message is None else broken)
        if self.place is not None:
            self._leave_place(self.place)
        if goes_offline:
            self._lose()
            return False
        self._phase = self.began_s = None
        return processes.end_phase(task, phase)

    def _lose(self) -> None:
        """Have the task end when the server may know that the client has just gone offline."""
        self._lost = Moment(self.processes.clock.now, EventOrder(Priority.DETECTION, self.client, 1))
