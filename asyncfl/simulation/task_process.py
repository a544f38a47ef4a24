"""A task on the clock: download, training, upload, and the events that may end it before."""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial

import simpy

from asyncfl.base.messages import ClientGone, ClientIdle, Dispatch, Fate, UpdateArrived
from asyncfl.federation.phases import LinkMessage, Phase, task_phases
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.simulation.budgets import SpentBudgets
from asyncfl.simulation.client_side import ClientSide
from asyncfl.simulation.clock import Clock, Steps, Waiting
from asyncfl.simulation.training import TrainingOnDemand
from asyncfl.simulation.transfers import Transfers
from asyncfl.simulation.workers import Workers
from asyncfl.trace import Kind


class TaskProcess:
    """Simulates the tasks of one seed from their dispatch until the server learns of their end."""

    def __init__(
        self,
        clock: Clock,
        tasks: TasksInFlight,
        transfers: Transfers,
        training: TrainingOnDemand,
        budgets: SpentBudgets,
        clients: ClientSide,
        running: dict[int, simpy.Process] | None,
        workers: Workers,
    ) -> None:
        """`running`: where each client's latest task is stored; None to store none."""
        self.clock = clock
        self.tasks = tasks
        self.transfers = transfers
        self.training = training
        self.budgets = budgets
        self.load = clients.load
        self.attackers = clients.attackers
        self.running = running
        self.workers = workers

    def dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. Returns a message to the server if the client cannot be reached."""
        clock = self.clock
        if not clock.world.online(action.client, clock.now):
            # The server drew a client that it believed idle, but that is offline.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            clock.start(self._return(action.client))
            return ClientGone(clock.now, action.client, action.task, None)
        task = self.tasks.begin(action)
        self.training.dispatched(task)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        clock.record_task(Kind.DISPATCHED, task)
        process = clock.start(self._task(task))
        if self.running is not None:
            self.running[task.client] = process
        return None

    def begun(self) -> None:
        """Draw the attackers among the tasks that have just begun together."""
        if self.attackers is not None:
            self.attackers.draw()

    def _task(self, task: TaskInFlight) -> Steps:
        clock = self.clock
        speed = 1.0 if self.attackers is None else self.attackers.speed(task.number, task.client)
        began_s = clock.now
        is_shared = self.transfers.any_shared or self.workers.processors.are_shared
        passed_s = (lambda: clock.now - began_s) if is_shared else None
        for phase in task_phases(clock.world.task(task.client, task.turn), self.load, speed, passed_s):
            shared = self.transfers.shares(phase.sending)
            slowed = self.workers.processors.are_shared and phase.begins is Kind.TRAINING_STARTED
            if phase.patience_s < phase.duration_s and not (shared or slowed):
                phase = phase.given_up(phase.patience_s)
            sending, place = phase.sending, None
            if phase.begins is Kind.TRAINING_STARTED:
                asked_s = clock.now
                if (place := (yield from self.workers.wait(task.client))) is None:
                    clock.record_task(Kind.WENT_OFFLINE, task)
                    self._vanished(task)
                    return
                # Waiting for a place to compute does not count as time at the task.
                began_s += clock.now - asked_s
            clock.record_task(phase.begins, task, size=-1 if sending is None else sending.transfer.payload_bytes)
            if phase.begins is Kind.UPLOAD_STARTED:
                self.budgets.send(task)
            if sending is not None and shared:
                phase, stays = yield from self._shares(task, phase, sending)
            elif slowed:
                phase, stays = yield from self._computes(task, phase)
            else:
                if sending is not None:
                    self.transfers.begin(task, sending)
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
                self.training.ended(task)
            if phase.fails is not None:
                self._ended(task, phase.fails)
                return
        clock.tell(UpdateArrived(clock.now, task.number))

    def _stays(self, task: TaskInFlight, duration_s: float, sending: LinkMessage | None = None) -> Waiting:
        """Wait for a phase of the task. Returns False if the client went offline before its end: its task is lost.

        `sending`: the message in transmission; the bytes that had left count as sent.
        """
        began_s = self.clock.now
        if (yield from self.clock.stays(task.client, duration_s)):
            return True
        sent_bytes = attempts = -1
        if sending is not None:
            sent_bytes, attempts = sending.broken_off(self.clock.now - began_s)
            self.transfers.traffic.count(sent_bytes, sending.way)
        self._went_offline(task, sent_bytes, attempts)
        return False

    def _shares(
        self, task: TaskInFlight, phase: Phase, sending: LinkMessage
    ) -> Generator[simpy.Event, None, tuple[Phase, bool]]:
        """Transmit a message over a shared link. Returns the phase as it ended, and whether the client stayed
        online."""
        clock, began_s = self.clock, self.clock.now
        offline_s, gives_up_s = clock.world.next_change(task.client, began_s), began_s + phase.patience_s
        broken = yield from self.transfers.share(task, sending, min(offline_s, gives_up_s))
        if broken is None:
            return phase, True
        if gives_up_s <= offline_s:
            return phase.given_up(clock.now - began_s, broken), True
        self.transfers.traffic.count(broken[0], sending.way)
        self._went_offline(task, *broken)
        return phase, False

    def _computes(self, task: TaskInFlight, phase: Phase) -> Generator[simpy.Event, None, tuple[Phase, bool]]:
        """Train on shared processors. Returns the phase as it ended, and whether the client stayed online."""
        clock, began_s = self.clock, self.clock.now
        offline_s, gives_up_s = clock.world.next_change(task.client, began_s), began_s + phase.patience_s
        if (yield from self.workers.processors.work(phase.duration_s, min(offline_s, gives_up_s))):
            return phase, True
        if gives_up_s <= offline_s:
            return phase.given_up(clock.now - began_s), True
        self._went_offline(task, -1, -1)
        return phase, False

    def _went_offline(self, task: TaskInFlight, sent_bytes: int, attempts: int) -> None:
        self.clock.record_task(Kind.WENT_OFFLINE, task, size=sent_bytes, attempt=attempts)
        self._vanished(task)

    def _vanished(self, task: TaskInFlight) -> None:
        """Inform the server that the client has just gone offline: now, when the lease ends, or when the client
        returns."""
        clock, client = self.clock, task.client
        detected_s, back_s = clock.world.detected_s(client, clock.now), clock.world.next_change(client, clock.now)
        clock.start(self._return(client, task if detected_s == back_s else None))
        if detected_s == clock.now:
            self._dropped_out(task)
        elif detected_s < back_s:
            clock.later(detected_s - clock.now, partial(self._lease_ended, task))

    def _lease_ended(self, task: TaskInFlight) -> None:
        if not self.clock.stopped:
            self._ended(task, Fate.TIMED_OUT, idle=False)

    def _dropped_out(self, task: TaskInFlight) -> None:
        """Report to the server that the client was offline and its task is lost. A ban may have settled the task
        before."""
        if task.number in self.tasks:
            self.clock.record_task(Kind.DROPPED_OUT, task, detail="offline")
        self._ended(task, Fate.DROPPED_OUT, idle=False)

    def _ended(self, task: TaskInFlight, fate: Fate, *, idle: bool = True) -> None:
        """Report to the server that the task failed, and if `idle` that the client is idle. These reports always
        arrive."""
        self.clock.tell(ClientGone(self.clock.now, task.client, task.number, fate))
        if idle:
            self.clock.tell(ClientIdle(self.clock.now, task.client))

    def _return(self, client: int, task: TaskInFlight | None = None) -> Steps:
        """Wait until an offline client is back, and report that it is idle.

        `task`: a task that the server still believes to be in flight then, and that the client reports as lost.
        """
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
