"""A task on the clock: download, training, upload, and what may end it before."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import simpy

from asyncfl.federation.traffic import Way
from asyncfl.messages import ClientGone, ClientIdle, Dispatch, Fate, UpdateArrived
from asyncfl.simulation.budgets import SpentBudgets
from asyncfl.simulation.client_side import ClientSide
from asyncfl.simulation.clock import Clock, Steps, Waiting
from asyncfl.simulation.tasks import TaskInFlight, TasksInFlight
from asyncfl.simulation.training import TrainingOnDemand
from asyncfl.simulation.transfers import Transfers
from asyncfl.trace import Kind
from asyncfl.world import Transfer


class Sending(NamedTuple):
    """A message of a task that is on its way."""

    transfer: Transfer
    way: Way
    speed: float
    """How many times as fast as usual."""


class TaskProcess:
    """Takes the tasks of one seed from their dispatch to the server's hearing of them."""

    def __init__(
        self,
        clock: Clock,
        tasks: TasksInFlight,
        transfers: Transfers,
        training: TrainingOnDemand,
        budgets: SpentBudgets,
        clients: ClientSide,
        running: dict[int, simpy.Process] | None,
    ) -> None:
        """`running`: where to keep each client's latest task; None: nobody waits for it."""
        self.clock = clock
        self.tasks = tasks
        self.transfers = transfers
        self.training = training
        self.budgets = budgets
        self.load = clients.load
        self.attackers = clients.attackers
        self.running = running

    def dispatch(self, action: Dispatch) -> ClientGone | None:
        """Begin a task. A message: the client cannot be reached, and the server is to hear of it."""
        clock = self.clock
        if not clock.world.online(action.client, clock.now):
            # Availability is looked up when it matters: the server drew a client that it took for idle.
            clock.record(Kind.WENT_OFFLINE, client=action.client)
            clock.start(self._return(action.client))
            return ClientGone(clock.now, action.client, action.task, None)
        task = self.tasks.begin(action)
        self.training.dispatched(task)
        if self.attackers is not None:
            self.attackers.begin(task.number, task.client, task.turn)
        clock.note(Kind.DISPATCHED, task)
        process = clock.start(self._task(task))
        if self.running is not None:
            self.running[task.client] = process
        return None

    def begun(self) -> None:
        """All that begins together has begun: attackers that are drawn among them are."""
        if self.attackers is not None:
            self.attackers.draw()

    def _task(self, task: TaskInFlight) -> Steps:
        clock, transfers, payload_bytes = self.clock, self.transfers, self.load.payload_bytes
        draws = clock.world.task(task.client, task.turn)
        speed = 1.0 if self.attackers is None else self.attackers.speed(task.number, task.client)

        clock.note(Kind.DOWNLOAD_STARTED, task, size=payload_bytes)
        down = draws.download(payload_bytes)
        transfers.begin(task, down, speed, "down")
        if not (yield from self._stays(task, down.duration_s / speed, Sending(down, "down", speed))):
            return
        transfers.end(task, down, "down")
        if not down.delivered:
            self._ended(task, Fate.LOST_DOWN)
            return

        clock.note(Kind.TRAINING_STARTED, task)
        compute_s = draws.compute_s(int(self.load.samples[task.client]), self.load.epochs) / speed
        gives_up_at = draws.dropout()
        if not (yield from self._stays(task, compute_s * (1.0 if gives_up_at is None else gives_up_at))):
            return
        if gives_up_at is not None:
            clock.note(Kind.DROPPED_OUT, task)
            self._ended(task, Fate.DROPPED_OUT)
            return
        clock.note(Kind.TRAINED, task)
        self.training.ended(task)

        clock.note(Kind.UPLOAD_STARTED, task, size=payload_bytes)
        self.budgets.send(task.client)
        up = draws.upload(payload_bytes)
        transfers.begin(task, up, speed, "up")
        if not (yield from self._stays(task, up.duration_s / speed, Sending(up, "up", speed))):
            return
        transfers.end(task, up, "up")
        if up.delivered:
            self.clock.tell(UpdateArrived(clock.now, task.number))
        else:
            self._ended(task, Fate.LOST_UP)

    def _stays(self, task: TaskInFlight, duration_s: float, sending: Sending | None = None) -> Waiting:
        """Wait for a phase of the task. False: the client went offline before its end, and the task with it.

        `sending`: the message that is on its way meanwhile. What had left of it was sent.
        """
        began_s = self.clock.now
        if (yield from self.clock.stays(task.client, duration_s)):
            return True
        sent_bytes = attempts = -1
        if sending is not None:
            elapsed_s = (self.clock.now - began_s) * sending.speed
            sent_bytes, attempts = sending.transfer.sent_by(elapsed_s), sending.transfer.attempts_by(elapsed_s)
            self.transfers.traffic.count(sent_bytes, sending.way)
        self.clock.note(Kind.WENT_OFFLINE, task, size=sent_bytes, attempt=attempts)
        self._vanished(task)
        return False

    def _vanished(self, task: TaskInFlight) -> None:
        """The client has just gone offline. The server hears of its task now, when the lease ends, or on its return."""
        clock, client = self.clock, task.client
        learnt_s, back_s = clock.world.learnt_s(client, clock.now), clock.world.next_change(client, clock.now)
        clock.start(self._return(client, task if learnt_s == back_s else None))
        if learnt_s == clock.now:
            self._dropped_out(task)
        elif learnt_s < back_s:
            clock.later(learnt_s - clock.now, partial(self._lease_ended, task))

    def _lease_ended(self, task: TaskInFlight) -> None:
        if not self.clock.stopped:
            self._ended(task, Fate.TIMED_OUT, idle=False)

    def _dropped_out(self, task: TaskInFlight) -> None:
        """The server hears that the task's client was offline. It may have settled the task before (a ban)."""
        if task.number in self.tasks:
            self.clock.note(Kind.DROPPED_OUT, task, detail="offline")
        self._ended(task, Fate.DROPPED_OUT, idle=False)

    def _ended(self, task: TaskInFlight, fate: Fate, *, idle: bool = True) -> None:
        """The task came to nothing. Its client says so when it asks for work again: asking is taken as reliable."""
        self.clock.tell(ClientGone(self.clock.now, task.client, task.number, fate))
        if idle:
            self.clock.tell(ClientIdle(self.clock.now, task.client))

    def _return(self, client: int, task: TaskInFlight | None = None) -> Steps:
        """Have a client that is offline ask for work when it is back.

        `task`: one that the server still takes for under way then, and hears of from the client.
        """
        clock = self.clock
        back_s = clock.world.next_change(client, clock.now)
        if back_s == math.inf:
            return
        yield clock.env.timeout(back_s - clock.now)
        if not clock.stopped:
            clock.record(Kind.CAME_ONLINE, client=client)
            if task is not None:
                self._dropped_out(task)
            self.clock.tell(ClientIdle(clock.now, client))
