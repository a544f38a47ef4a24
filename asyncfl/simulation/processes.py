"""The processes of clients on the clock: a task, from its dispatch until the server learns of its end, and a request
for scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from functools import partial

import simpy

from asyncfl.base.messages import (
    BudgetSpent,
    ClientGone,
    ClientIdle,
    Dispatch,
    Fate,
    RequestScores,
    ScoresArrived,
    UpdateArrived,
)
from asyncfl.federation.phases import LinkMessage, Phase, scoring_phases, task_phases
from asyncfl.server.tasks import TaskRecord
from asyncfl.simulation.capacity import Workers
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.clock import Clock, Steps, Waiting
from asyncfl.simulation.transfers import Transfers
from asyncfl.trace import Kind
from asyncfl.trace.scoring_requests import NO_ANSWER


class ClientProcesses:
    """The processes of the clients of one seed."""

    def __init__(self, clock: Clock, clients: SimulatedClients, transfers: Transfers, workers: Workers) -> None:
        self.clock = clock
        self.clients = clients
        self.load = clients.load
        self.transfers = transfers
        self.workers = workers
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent, when its last upload began."""
        # A request for scores waits for the client's task only if clients score and train one after the other.
        self._running: dict[int, simpy.Process] | None = {} if clients.scoring == "serial" else None
        """Client -> its latest task; None if requests do not wait."""
        self._requests = Counter[int]()

    # --- budgets ---------------------------------------------------------------------------------------------------

    def begin(self, clients: int) -> None:
        """Report to the server the clients whose budget is too small for any upload."""
        for client in range(clients):
            self._check_budget(client, 0)

    def _check_budget(self, client: int, turn: int) -> None:
        """Report to the server a client for which one more upload, that of its task number `turn`, would exceed its
        budget."""
        budgets = self.clients.budgets
        if budgets is not None and not budgets.affords(client, turn):
            self.spent[client] = self.clock.now
            self.clock.record(Kind.BUDGET_SPENT, client=client, detail=budgets.describe_spending(client))
            self.clock.tell(BudgetSpent(self.clock.now, client))

    def _charge_upload(self, task: TaskRecord) -> None:
        """Charge an upload as it begins: it counts whether or not it arrives, since it may be overheard."""
        if self.clients.budgets is not None:
            self.clients.budgets.charge_upload(task.client, task.epochs)
            self._check_budget(task.client, task.turn + 1)

    def _affords_scores(self, client: int, models: int) -> bool:
        """Whether the client scores `models` models. If so, they count from now on: they may be overheard."""
        budgets = self.clients.budgets
        return client not in self.spent and (budgets is None or budgets.charge_scores(client, models))

    # --- tasks -----------------------------------------------------------------------------------------------------

    def dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. Returns a message to the server if the client cannot be reached."""
        clock = self.clock
        if not clock.world.online(action.client, clock.now):
            # The server drew a client that it believed idle, but that is offline.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            clock.start(self._return(action.client))
            return ClientGone(clock.now, action.client, action.task, None)
        task = clock.server.tasks.open[action.task]
        self.clients.begin(task)
        clock.record_task(Kind.DISPATCHED, task)
        process = clock.start(self._task(task))
        if self._running is not None:
            self._running[task.client] = process
        return None

    def _task(self, task: TaskRecord) -> Steps:
        clock, processors = self.clock, self.workers.processors
        began_s = clock.now
        is_shared = self.transfers.any_shared or processors.are_shared
        passed_s = (lambda: clock.now - began_s) if is_shared else None
        draws = clock.world.task(task.client, task.turn)
        for phase in task_phases(draws, self.load, self.clients.speed(task), passed_s):
            shared = self.transfers.shares(phase.sending)
            slowed = processors.are_shared and phase.begins is Kind.TRAINING_STARTED
            if phase.patience_s < phase.duration_s and not (shared or slowed):
                phase = phase.given_up(phase.patience_s)
            sending, place = phase.sending, None
            if phase.begins is Kind.TRAINING_STARTED:
                asked_s = clock.now
                if (place := (yield from self.workers.wait(task.client))) is None:
                    self._went_offline(task)
                    return
                # Waiting for a place to compute does not count as time at the task.
                began_s += clock.now - asked_s
            clock.record_task(phase.begins, task, size=-1 if sending is None else sending.transfer.payload_bytes)
            if phase.begins is Kind.UPLOAD_STARTED:
                self._charge_upload(task)
            if shared or slowed:
                phase, stays = yield from self._shares(task, phase)
            else:
                if sending is not None:
                    self.transfers.begin(task.client, sending, self.transfers.task_note(task, sending.way))
                stays = yield from self._stays(task, phase.duration_s, sending)
            if place is not None:
                self.workers.leave(place)
            if not stays:
                return
            if phase.sending is not None:
                self.transfers.end(task, phase.ends, phase.sending)
            else:
                clock.record_task(phase.ends, task, detail=phase.detail)
            if phase.ends is Kind.TRAINED:
                task.epochs = phase.epochs
                self.clients.training_ended(task)
            if phase.fails is not None:
                self._ended(task, phase.fails)
                return
        clock.tell(UpdateArrived(clock.now, task.number))

    def _stays(self, task: TaskRecord, duration_s: float, sending: LinkMessage | None) -> Waiting:
        """Wait for a phase of the task. Returns False if the client went offline before its end: its task is lost."""
        began_s = self.clock.now
        if (yield from self.clock.stays(task.client, duration_s)):
            return True
        self._went_offline(task, sending, sending and sending.broken_off(self.clock.now - began_s))
        return False

    def _shares(self, task: TaskRecord, phase: Phase) -> Generator[simpy.Event, None, tuple[Phase, bool]]:
        """Transmit a message over a shared link, or train on shared processors."""
        clock, sending, broken = self.clock, phase.sending, None
        began_s = clock.now
        offline_s, gives_up_s = clock.world.next_change(task.client, began_s), began_s + phase.patience_s
        until_s = min(offline_s, gives_up_s)
        if sending is not None:
            broken = yield from self.transfers.share(sending, until_s, self.transfers.task_note(task, sending.way))
            if broken is None:
                return phase, True
        elif (yield from self.workers.processors.work(phase.duration_s, until_s)):
            return phase, True
        if gives_up_s <= offline_s:
            return phase.given_up(clock.now - began_s, broken), True
        self._went_offline(task, sending, broken)
        return phase, False

    def _went_offline(
        self, task: TaskRecord, sending: LinkMessage | None = None, broken: tuple[int, int] | None = None
    ) -> None:
        """Inform the server that the client has just gone offline: now, when the lease ends, or when the client
        returns. `broken`: bytes sent, and transmissions begun, of the message `sending` in transmission: they count as
        sent."""
        clock, client = self.clock, task.client
        sent_bytes, attempts = broken or (-1, -1)
        if sending is not None:
            self.transfers.traffic.count(sent_bytes, sending.way)
        clock.record_task(Kind.WENT_OFFLINE, task, size=sent_bytes, attempt=attempts)
        detected_s, back_s = clock.world.detected_s(client, clock.now), clock.world.next_change(client, clock.now)
        clock.start(self._return(client, task if detected_s == back_s else None))
        if detected_s == clock.now:
            self._dropped_out(task)
        elif detected_s < back_s:
            clock.later(detected_s - clock.now, partial(self._lease_ended, task))

    def _lease_ended(self, task: TaskRecord) -> None:
        if not self.clock.stopped:
            self._ended(task, Fate.TIMED_OUT, idle=False)

    def _dropped_out(self, task: TaskRecord) -> None:
        """Report to the server that the client was offline and its task is lost."""
        if task.number in self.clock.server.tasks:
            self.clock.record_task(Kind.DROPPED_OUT, task, detail="offline")
        self._ended(task, Fate.DROPPED_OUT, idle=False)

    def _ended(self, task: TaskRecord, fate: Fate, *, idle: bool = True) -> None:
        """Report to the server that the task failed, and if `idle` that the client is idle."""
        self.clock.tell(ClientGone(self.clock.now, task.client, task.number, fate))
        if idle:
            self.clock.tell(ClientIdle(self.clock.now, task.client))

    def _return(self, client: int, task: TaskRecord | None = None) -> Steps:
        """Wait until an offline client is back, and report that it is idle."""
        clock = self.clock
        back_s = clock.world.next_change(client, clock.now)
        if back_s == math.inf:
            return
        yield clock.until(back_s)
        if not clock.stopped:
            clock.record(Kind.CAME_ONLINE, client=client)
            if task is not None:
                self._dropped_out(task)
            self.clock.tell(ClientIdle(clock.now, client))

    # --- requests for scores ---------------------------------------------------------------------------------------

    def score(self, action: RequestScores) -> Steps:
        """Send a request to a client, which downloads models, evaluates each on its data and uploads the scores. Pass
        its answer, or the lack of one, to the server."""
        clock, client, number = self.clock, action.client, len(action.models)
        size = number * self.load.payload_bytes
        clock.record(Kind.SCORES_REQUESTED, client=client, detail=f"{number} models", size=size)
        if self._running is not None and client in self._running:
            yield self._running[client]
        scores = None
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        if clock.world.online(client, clock.now) and self._affords_scores(client, number):
            turn = self._requests[client]
            self._requests[client] += 1
            answers = yield from self._answers(action, turn)
            if answers and client not in self.spent:
                scores = self.clients.score(action, turn)
        detail = f"{number} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(clock.now, action.request, scores))

    def _answers(self, action: RequestScores, turn: int) -> Waiting:
        """Simulate download, evaluation and upload of a request for scores."""
        clock, client, processors = self.clock, action.client, self.workers.processors
        for phase in scoring_phases(clock.world.scoring(client, turn), self.load, len(action.models)):
            sending, place, broken = phase.sending, None, None
            shared = self.transfers.shares(sending)
            if sending is None:
                if (place := (yield from self.workers.wait(client))) is None:
                    yield from self._learnt(client)
                    return False
                self.clients.scoring_begins(client)
            elif not shared:
                self.transfers.begin(client, sending, self.transfers.scoring_note(client, phase.name))
            began_s, until_s = clock.now, clock.world.next_change(client, clock.now)
            if sending is not None and shared:
                broken = yield from self.transfers.share(
                    sending, until_s, self.transfers.scoring_note(client, phase.name)
                )
                stays = broken is None
            elif sending is None and processors.are_shared:
                stays = yield from processors.work(phase.duration_s, until_s)
            else:
                stays = yield from clock.stays(client, phase.duration_s)
            if place is not None:
                self.workers.leave(place)
            if not stays:
                yield from self._learnt(client)
            if sending is not None:
                sent_bytes = sending.transfer.sent_bytes
                if not stays:
                    # If a message breaks off, count the bytes that had left.
                    sent_bytes, _ = broken or sending.broken_off(until_s - began_s)
                self.transfers.traffic.count(sent_bytes, sending.way)
            if not (stays and (sending is None or sending.transfer.delivered)):
                return False
        return True

    def _learnt(self, client: int) -> Steps:
        """Wait until the server has learnt that the client, which has just gone offline, is gone."""
        clock = self.clock
        yield clock.env.timeout(clock.world.detected_s(client, clock.now) - clock.now)
