"""What a client works with, and what it is at: a task, or models that it is asked to score."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from asyncfl.base.messages import Fate
from asyncfl.federation.phases import LinkMessage, Phase, ScoringPhase, scoring_phases, task_phases
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.federation.traffic import Way
from asyncfl.learning.deadline import NoEpochError
from asyncfl.live.clock import LiveClock
from asyncfl.live.vocabulary import FromServer, Judge, Noted, Report, Task
from asyncfl.live.wire import Decoder
from asyncfl.live.work import Done, Workshop
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.threats import Threats
from asyncfl.trace import Kind
from asyncfl.trace.events import NO_EPOCH, epochs_detail
from asyncfl.world import Transfer, WorldState

Observer: TypeAlias = Callable[[int, str, int, int, str], None]
"""Called with an event of a client: task (-1: a request for scores), kind, bytes, attempt, detail."""

SENT = "sent"
"""What is noted of a message of a request for scores, for its bytes: it is no event."""


@dataclass(frozen=True)
class Craft:
    """What a client has once it was let in."""

    number: int
    workshop: Workshop
    executor: Executor
    load: Workload
    world: WorldState | None
    """The world that it lives in; None: the real one."""
    threats: Threats | None
    budgets: BudgetTracker | None
    decoder: Decoder[FromServer]
    """Reads what the server says."""
    reports_losses: bool
    """Whether it sends its training losses, see `Scenario.reports_losses`."""
    observer: Observer | None = None
    """Told of the client's events when they happen; None: the server learns of them from reports alone."""

    def phases(self, said: Task) -> list[tuple[Phase, bool]]:
        """The phases of a task, and whether it must be trained: that what comes of it is sent, or kept."""
        if self.world is None:
            down, up = at_once("down", self.load.download_bytes), at_once("up", self.load.upload_bytes)
            return [
                (Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 0.0, sending=down), True),
                (Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 0.0), True),
                (Phase(Kind.UPLOAD_STARTED, Kind.UPLOADED, 0.0, sending=up), True),
            ]
        speed = self.threats.attack.rate if said.attacks and self.threats is not None else 1.0
        phases = list(task_phases(self.world.task(self.number, said.turn), self.load, speed))
        # A client goes on with what a task has made of its own layers, whatever becomes of the update.
        needed = phases[-1].fails is None or (
            self.workshop.personal is not None and any(phase.ends is Kind.TRAINED for phase in phases)
        )
        return [(phase, needed) for phase in phases]

    def measured(self, phase: Phase, training: asyncio.Future[Done]) -> Phase:
        """A phase of training that has ended, as it came out: by a real client's own clock, or as it was said."""
        if self.world is not None or self.load.deadline_s is None:
            return phase
        if isinstance(training.exception(), NoEpochError):
            return phase._replace(ends=Kind.DROPPED_OUT, fails=Fate.DROPPED_OUT, detail=NO_EPOCH)
        done = None if training.exception() else training.result().epochs
        return phase if done is None else phase._replace(epochs=done, detail=epochs_detail(done, self.load.epochs))

    def scoring_phases(self, said: Judge, models: int) -> list[ScoringPhase]:
        """The phases of a request for scores of so many models."""
        if self.world is None:
            return [ScoringPhase(0.0)]
        return list(scoring_phases(self.world.scoring(self.number, said.turn), self.load, models))


@dataclass
class At:
    """Something that a client is at."""

    number: int
    """Of its task; -1: a request for scores."""
    began_s: float
    observer: Observer | None = None
    """See `Craft.observer`."""
    notes: list[Noted] = field(default_factory=list)
    sending: LinkMessage | None = None
    """Message that is on its way."""
    sent_s: float = 0.0
    """When it began to be sent, or what else it does began."""
    doing: asyncio.Task[None] | None = None
    foreseen: list[asyncio.TimerHandle] = field(default_factory=list)
    """Timers of events that the observer will be told of."""

    def note(self, now_s: float, kind: str, size: int = -1, attempt: int = -1, detail: str = "") -> None:
        """Write down an event that happens now, and tell the observer."""
        self.notes.append(Noted(max(0.0, now_s - self.began_s), kind, size, attempt, detail))
        if self.observer is not None:
            self.observer(self.number, kind, size, attempt, detail)

    def foresee(self, clock: LiveClock, time_s: float, kind: str, size: int, attempt: int, detail: str) -> None:
        """Write down an event that will happen at `time_s`. A report before then leaves it out."""
        self.notes.append(Noted(max(0.0, time_s - self.began_s), kind, size, attempt, detail))
        if self.observer is not None:
            tell = partial(self.observer, self.number, kind, size, attempt, detail)
            self.foreseen.append(clock.at(time_s, tell))

    def stop(self) -> None:
        """Stop what the client is at: none of its foreseen events happens."""
        for timer in self.foreseen:
            timer.cancel()
        if self.doing is not None:
            self.doing.cancel()

    def report(self, now_s: float) -> Report:
        """What has happened until now, in its order."""
        happened = [one for one in self.notes if one.after_s <= now_s - self.began_s]
        return tuple(sorted(happened, key=lambda one: one.after_s))


def at_once(way: Way, size: int) -> LinkMessage:
    """A message over a link that is what it is."""
    return LinkMessage(Transfer(0.0, True, 1, 1, 1, 0, size, math.inf, (), (), size, 0.0), way)
