"""Requests for scores on the clock: a client downloads models, evaluates each on its data and uploads the scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import simpy

from asyncfl.base.messages import RequestScores, ScoresArrived
from asyncfl.federation.phases import scoring_phases
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.simulation.budgets import SpentBudgets
from asyncfl.simulation.clock import Clock, Steps, Waiting
from asyncfl.simulation.training import TrainingOnDemand
from asyncfl.simulation.transfers import Transfers
from asyncfl.simulation.workers import Workers
from asyncfl.trace import Kind
from asyncfl.trace.scoring_requests import NO_ANSWER


class ScoreRequests:
    """Carries out the requests of one seed."""

    def __init__(
        self,
        clock: Clock,
        transfers: Transfers,
        training: TrainingOnDemand,
        budgets: SpentBudgets,
        load: Workload,
        running: Mapping[int, simpy.Process] | None,
        workers: Workers,
    ) -> None:
        """`running`: client -> its latest task, for which a request waits; None if it does not wait."""
        self.clock = clock
        self.transfers = transfers
        self.training = training
        self.budgets = budgets
        self.load = load
        self.running = running
        self.workers = workers
        self._turns = Counter[int]()

    def carry_out(self, action: RequestScores) -> Steps:
        """Send a request to a client, and pass its answer, or the lack of one, to the server."""
        clock, client, number = self.clock, action.client, len(action.models)
        size = number * self.load.payload_bytes
        clock.record(Kind.SCORES_REQUESTED, client=client, detail=f"{number} models", size=size)
        if self.running is not None and client in self.running:
            yield self.running[client]
        scores = None
        # As with tasks, the server does not know which clients are offline. Nothing is sent to an offline client.
        if clock.world.online(client, clock.now) and self.budgets.answers(client, number):
            turn = self._turns[client]
            self._turns[client] += 1
            answers = yield from self._answers(action, turn)
            if answers and client not in self.budgets.spent:
                scores = self.training.score(action, turn)
        detail = f"{number} models" if scores is not None else NO_ANSWER
        clock.record(Kind.SCORED, client=client, detail=detail)
        clock.tell(ScoresArrived(clock.now, action.request, scores))

    def _answers(self, action: RequestScores, turn: int) -> Waiting:
        """Simulate download, evaluation and upload of a request for scores. Returns whether the scores arrived: False
        if the client went offline before, or a message was lost.

        It returns when the server learns of it: the server waits for a vanished client as for one at a task. `turn`:
        number of requests that the client was sent before.
        """
        clock, client = self.clock, action.client
        for phase in scoring_phases(clock.world.scoring(client, turn), self.load, len(action.models)):
            sending = phase.sending
            if sending is not None and not self.transfers.shares(sending):
                self.transfers.begin_scoring(client, sending, phase.name)
            place = None
            if sending is None and (place := (yield from self.workers.wait(client))) is None:
                yield from self._learnt(client)
                return False
            if sending is None:
                self.training.scoring_begins(client)
            began_s, until_s = clock.now, clock.world.next_change(client, clock.now)
            broken = None
            if sending is not None and self.transfers.shares(sending):
                broken = yield from self.transfers.share_scoring(client, sending, phase.name, until_s)
                stays = broken is None
            elif sending is None and self.workers.processors.are_shared:
                stays = yield from self.workers.processors.work(phase.duration_s, until_s)
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
