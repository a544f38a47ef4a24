"""Evaluations of the versions of a live run, beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from asyncfl.base.instrument import Instrument, Row
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.protocol.messages import BufferVerdict, Publish
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.round_recorder import RoundRecorder

WAITING = 4
"""Versions that wait to be evaluated before the server waits for them."""

OnRow: TypeAlias = Callable[[Row, int], None]
"""Called with each row of the table of rounds when it is complete, and the tasks in flight when it began."""


@dataclass
class Evaluations(Instrument):
    """Evaluates published versions one after another in a thread, while the run goes on."""

    rounds: RoundRecorder
    in_flight: Callable[[], int]
    on_row: OnRow | None
    diverged: Callable[[str], None]
    personal: PersonalLayers | None = None
    """The clients' own layers; None: there are none, or the server does not know them."""
    waiting: list[tuple[Row, Publish, int, PersonalLayers | None]] = field(default_factory=list)
    """Versions that are not evaluated yet: row, version, tasks in flight when it was published, personal layers."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def judged(self, judged: BufferVerdict) -> None:
        self.rounds.judged(judged)

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Queue the version for its evaluation. A run that diverges is stopped later, once its version is evaluated."""
        personal = None if self.personal is None else self.personal.copy()
        self.waiting.append((self.rounds.begin_row(time_s, publish, traffic), publish, self.in_flight(), personal))
        self._changed.set()
        return None

    async def keep_up(self) -> None:
        """Wait while too many versions wait."""
        while len(self.waiting) > WAITING:
            self._changed.clear()
            await self._changed.wait()

    async def run(self, *, forever: bool = True) -> None:
        """Evaluate versions until it is cancelled, or until none waits."""
        with ThreadPoolExecutor(1, "evaluation") as executor:
            while forever or self.waiting:
                await self._next(executor)

    async def _next(self, executor: Executor) -> None:
        while not self.waiting:
            self._changed.clear()
            await self._changed.wait()
        row, _, in_flight, _ = self.waiting[0]
        evaluated = asyncio.get_running_loop().run_in_executor(executor, self._evaluate_first)
        # The thread goes on, also if the run ends meanwhile.
        reason = await asyncio.shield(evaluated)
        self._changed.set()
        if self.on_row is not None:
            self.on_row(row, in_flight)
        if reason is not None:
            self.diverged(reason)

    def _evaluate_first(self) -> str | None:
        row, publish, _, personal = self.waiting[0]
        reason = self.rounds.evaluate(row, publish, personal)
        # Here, so that no version is evaluated twice.
        self.waiting.pop(0)
        return reason
