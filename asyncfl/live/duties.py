"""What a client does of what it is given, phase by phase: a model to train, or models to score."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from asyncfl.base.messages import Fate, Vector
from asyncfl.client import Assignment
from asyncfl.compression import Download
from asyncfl.federation.phases import LinkMessage, Phase
from asyncfl.live.clock import LiveClock
from asyncfl.live.errands import SENT, At, Craft
from asyncfl.live.vocabulary import Gone, Judge, Said, Scores, Spent, Task, Update
from asyncfl.live.work import Done
from asyncfl.trace import Kind


class Say(Protocol):
    """Sends the server a message, now or as soon as there is a connection again."""

    async def __call__(self, message: Said, models: Vector | Download | None = None) -> None:
        """`models`: that come with it; None: none do."""
        ...


class Duties:
    """Carries out what one client is given."""

    def __init__(self, craft: Craft, clock: LiveClock, say: Say, tell: Callable[[str], None], *, spent: bool) -> None:
        """`tell`: is told of each update, in a sentence. `spent`: whether the client's budget was from the start."""
        self._craft, self._clock, self._say, self._tell, self._spent = craft, clock, say, tell, spent

    async def task(self, said: Task, model: Vector, at: At) -> None:
        """Train the model (n_parameters,) and send what comes of it."""
        craft = self._craft
        if self._spent:
            # That it is spent was not heard: the connection ended as it was said.
            await self._say(Spent("" if craft.budgets is None else craft.budgets.describe_spending(craft.number)))
            await self._say(Gone(said.task, Fate.DROPPED_OUT.value, at.report(self._clock.now)))
            return
        # The model is a view of the frame that it came in, read-only as that is.
        assignment = Assignment(said.task, craft.number, said.version, model, said.turn)
        training: asyncio.Future[Done] | None = None
        for phase, needed in craft.phases(said):
            if phase.begins is Kind.TRAINING_STARTED and needed:
                assignment = replace(assignment, epochs=phase.epochs)
                training = self._train(craft, at, assignment, said.attacks)
            phase = await self._pass(at, phase, training, assignment)
            if phase.ends is Kind.TRAINED:
                assignment = replace(assignment, epochs=phase.epochs)
            if phase.fails is not None:
                report = at.report(self._clock.now)
                await self._say(Gone(said.task, phase.fails.value, report))
                return
        if training is None:
            raise ValueError(f"task {said.task} was not trained")
        done = await training
        update = Update(
            said.task,
            done.loss if craft.reports_losses else None,
            done.added_std,
            done.epsilon,
            at.report(self._clock.now),
            assignment.epochs,
        )
        await self._say(update, done.model)
        self._tell(f"task {said.task}: version {said.version} trained, loss {done.loss:.4g}, sent")

    def _train(self, craft: Craft, at: At, assignment: Assignment, attacks: bool) -> asyncio.Future[Done]:
        loop, deadline_s = asyncio.get_running_loop(), None
        if craft.world is None and craft.load.deadline_s is not None:
            deadline_s = craft.load.deadline_s / self._clock.speedup

        def train() -> Done:
            if craft.world is None:
                # When a thread is free for it, and not before.
                loop.call_soon_threadsafe(lambda: at.note(self._clock.now, Kind.TRAINING_STARTED))
            return craft.workshop.train(assignment, attacks, deadline_s)

        return loop.run_in_executor(craft.executor, train)

    async def _pass(self, at: At, phase: Phase, training: asyncio.Future[Done] | None, assignment: Assignment) -> Phase:
        """Wait for the end of a phase, for ever where the client vanishes before. The phase as it came out."""
        clock, sending = self._clock, phase.sending
        began_s = clock.now
        if phase.begins is Kind.UPLOAD_STARTED or (phase.begins is Kind.TRAINING_STARTED and self._craft.world):
            # Of the download the server knows.
            at.note(began_s, phase.begins, -1 if sending is None else sending.transfer.payload_bytes)
        if phase.begins is Kind.UPLOAD_STARTED:
            await self._spend(at, assignment)
        await self._on_its_way(at, sending, phase.duration_s, "" if sending is None else sending.way)
        if phase.ends is Kind.TRAINED and training is not None:
            await asyncio.wait([training])
            if not training.cancelled() and training.exception() is None:
                self._craft.workshop.keep(assignment.client, training.result())
            phase = self._craft.measured(phase, training)
        if sending is None:
            at.note(clock.now, phase.ends, detail=phase.detail)
        else:
            at.note(clock.now, phase.ends, sending.transfer.sent_bytes, sending.transfer.attempts, sending.way)
        return phase

    async def _on_its_way(self, at: At, sending: LinkMessage | None, duration_s: float, said: str) -> None:
        """Wait that long, with what there is to write down of a message meanwhile."""
        craft, clock = self._craft, self._clock
        if craft.world is None:
            return
        began_s = clock.now
        until_s = craft.world.next_change(craft.number, began_s)
        at.sending, at.sent_s = sending, began_s
        for mark in () if sending is None else sending.events():
            if began_s + mark.at_s <= until_s:
                at.foresee(clock, began_s + mark.at_s, mark.kind, mark.size, mark.attempt, said)
        end_s = began_s + duration_s
        await clock.until(end_s if end_s <= until_s else math.inf)
        at.sending = None

    async def _spend(self, at: At, assignment: Assignment) -> None:
        """An upload begins. Sent is spent, whether or not it arrives: somebody may hear it."""
        craft = self._craft
        budgets = craft.budgets
        if budgets is None or self._spent:
            return
        budgets.charge_upload(craft.number, assignment.epochs)
        if not budgets.affords(craft.number, assignment.turn + 1):
            self._spent = True
            at.note(self._clock.now, Kind.BUDGET_SPENT, detail=budgets.describe_spending(craft.number))
            await self._say(Spent(budgets.describe_spending(craft.number)))

    # --- scores ----------------------------------------------------------------------------------------------------

    async def judge(self, said: Judge, models: Vector, at: At) -> None:
        """Score the models (n_models, n_parameters), and send the scores."""
        craft = self._craft
        if self._spent or (craft.budgets is not None and not craft.budgets.charge_scores(craft.number, len(models))):
            await self._say(Scores(said.request, None, at.report(self._clock.now)))
            return
        answered, scoring = True, None
        score = partial(
            craft.workshop.score, craft.number, said.turn, models, said.attacks, said.last_version, said.last_turn
        )
        for phase in craft.scoring_phases(said, len(models)):
            if phase.sending is None:
                scoring = asyncio.get_running_loop().run_in_executor(
                    craft.executor, partial(score, own=craft.workshop.own_layers(craft.number))
                )
                await self._on_its_way(at, None, phase.duration_s, phase.name)
                await asyncio.wait([scoring])
                continue
            await self._on_its_way(at, phase.sending, phase.duration_s, phase.name)
            transfer = phase.sending.transfer
            at.note(self._clock.now, SENT, transfer.sent_bytes, detail=phase.sending.way)
            answered = transfer.delivered
        scores = None
        if answered and scoring is not None and not self._spent:
            scores = tuple((await scoring).tolist())
        await self._say(Scores(said.request, scores, at.report(self._clock.now)))
