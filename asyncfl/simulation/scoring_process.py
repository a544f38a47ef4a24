"""A request for scores as a process, which goes from phase to phase (`phases.ScoringPhases`)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import simpy

from asyncfl.protocol.events import CAUGHT, SCORING_DOWN, Kind
from asyncfl.protocol.messages import ScoreRequest, ScoresArrived
from asyncfl.protocol.score_requests import NO_ANSWER
from asyncfl.simulation.capacity import Sent
from asyncfl.simulation.client_process import ClientProcess
from asyncfl.simulation.clock import Moment
from asyncfl.simulation.event_order import EventOrder, Priority
from asyncfl.simulation.phases import LinkMessage, MessageEvent, ScoringPhase, ScoringPhases
from asyncfl.simulation.task_process import TaskProcess

if TYPE_CHECKING:
    from asyncfl.simulation.client_processes import ClientProcesses


class ScoringProcess(ClientProcess):
    """A request for scores: the client downloads models, evaluates each on its data and uploads the scores."""

    __slots__ = ("_after", "_missed", "_phase", "_phases", "_turn", "action")
    part = 1

    def __init__(self, processes: ClientProcesses, action: ScoreRequest) -> None:
        super().__init__(processes, action.client, EventOrder(Priority.SCORING, action.request))
        self.action = action
        self._turn = -1
        """Number of the client's requests before; -1: this one did not reach it."""
        self._after: TaskProcess | None = None
        """Task for whose end the request waits."""
        self._phases: ScoringPhases | None = None
        """The phases that are left; None before the request reaches the client."""
        self._phase: ScoringPhase | None = None
        """The phase that the client is in, or waits for a place for."""
        self._missed: Moment | None = None
        """When the server knows that the client has gone offline; None while it is online."""

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Take the client through the phases that are left."""
        clock = self.processes.clock
        if self._phases is None:
            if self._after is None:
                self._record_request()
            if self._after is not None:
                yield clock.processes[self._after]
            if not self._reaches_client():
                yield clock.env.event().succeed()
                self._answer(False)
                return
        while self._missed is None:
            phase = self._phase or self._next_phase()
            if phase is None:
                self._answer(True)
                return
            if self.began_s is None:
                if self.place is not None and not (yield from self._wait_for_place(self.place)):
                    self._miss()
                    continue
                if phase.sending is None:
                    self.processes.clients.scoring_begins(self.client)
                self._begin_phase(phase.duration_s, self._offline())
            broken = yield from self._pass_phase(phase.duration_s)
            if not self._end(broken):
                return
        yield clock.env.timeout_at(self._missed)
        self._answer(False)

    def _record_request(self) -> None:
        """Record the request, and find the task for whose end it waits."""
        processes, clock, number = self.processes, self.processes.clock, len(self.action.models)
        size = number * processes.load.payload_bytes
        clock.record(Kind.SCORES_REQUESTED, client=self.client, detail=f"{number} models", size=size)
        latest = None if processes.latest is None else processes.latest.get(self.client)
        if latest in clock.processes and clock.world.online(self.client, clock.now):
            self._after = latest

    def _reaches_client(self) -> bool:
        """Send the request, and return whether the client can be reached and its budget allows to answer."""
        processes, clock, number = self.processes, self.processes.clock, len(self.action.models)
        budgets = processes.clients.budgets
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        is_online = clock.world.online(self.client, clock.now) and self.client not in processes.spent
        # Scores count for the budget from now on: they may be overheard.
        if not is_online or not (budgets is None or budgets.charge_scores(self.client, number)):
            return False
        self._turn = processes.requests[self.client]
        processes.requests[self.client] += 1
        self._phases = ScoringPhases(clock.world.scoring(self.client, self._turn), processes.load, number)
        return True

    def _next_phase(self) -> ScoringPhase | None:
        """Return the next phase, None after the last, and ask for a place if the client computes in it."""
        assert self._phases is not None
        self._phase = phase = next(self._phases, None)
        if phase is not None:
            self.message = phase.sending
            if phase.sending is None and self.processes.workers.are_limited:
                self._ask_for_place()
        return phase

    def _end(self, broken: Sent | None) -> bool:
        """End a phase, and return whether the request goes on or is missed. `broken`: see `TaskProcess`."""
        message, traffic = self.message, self.processes.traffic
        if self.place is not None:
            self._leave_place(self.place)
        if broken is not None:
            if message is not None:
                traffic.count(broken[0], message.way)
            self._miss()
            return True
        if message is not None:
            traffic.count(message.transfer.sent_bytes, message.way)
            if not message.transfer.delivered:
                self._answer(False)
                return False
        self._phase = self.began_s = None
        return True

    def _miss(self) -> None:
        """Have the request end without an answer when the server has learnt that the client has just gone offline."""
        clock, client = self.processes.clock, self.client
        detected_s = clock.world.detected_s(client, clock.now)
        back_s = clock.world.presence.next_change(client, clock.now)
        is_lease = clock.now < detected_s < back_s
        order = EventOrder(Priority.LEASE if is_lease else Priority.DETECTION, client, self.part)
        self._missed = Moment(detected_s, order)

    def _answer(self, answers: bool) -> None:
        """Pass the answer, or the lack of one, to the server."""
        processes, clock, client, scores = self.processes, self.processes.clock, self.client, None
        if answers and client not in processes.spent:
            scores = processes.clients.score(self.action, self._turn)
        detail = f"{len(self.action.models)} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(self.action.request, scores, time_s=clock.now))

    def _logger(self, message: LinkMessage) -> Callable[[MessageEvent], None]:
        assert self._phase is not None
        return partial(self._note, self._phase.name)

    def _note(self, way: str, mark: MessageEvent) -> None:
        """Log an event of models to score, sent to the client, or of its scores sent back."""
        clock = self.processes.clock
        clock.record(mark.kind, self.client, way, mark.size, mark.attempt)
        if mark.kind in CAUGHT and way == SCORING_DOWN:
            # The models of a request reveal each update of the buffer.
            for task in clock.server.tasks.collected():
                if not task.overheard:
                    self.processes.note(task, way, mark)
