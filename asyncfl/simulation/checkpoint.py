"""Checkpoints of a seed that is being simulated: its whole state between two steps of the clock.

What a seed is prepared from (its data, the learner) is built again; all else is in the checkpoint, so the seed goes on
to the same bytes as if it had never been interrupted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from asyncfl.base.errors import AsyncflError, OutputError, RunError
from asyncfl.base.files.checkpoint_file import read_checkpoint, write_checkpoint
from asyncfl.base.interrupt_signals import InterruptSignals
from asyncfl.measurements import Minutes
from asyncfl.scenario import Scenario
from asyncfl.simulation.clients import TrainingClients
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.round_recorder import RoundRecorder
from asyncfl.simulation.saved_state import prepared_parts, restored, saved

log = logging.getLogger(__name__)

SHARE = 0.02
"""Largest share of a run's time that checkpoints by minutes may take."""


class PausedError(AsyncflError):
    """A seed was to be simulated no further for now; a checkpoint holds its state."""


@dataclass
class UnderWay:
    """A seed that is being simulated."""

    driver: Driver
    rounds: RoundRecorder
    federation: Federation

    @property
    def clients(self) -> TrainingClients:
        """The clients that train."""
        assert isinstance(self.driver.clients, TrainingClients)
        return self.driver.clients


class Checkpoints:
    """Checkpoints of one seed in the file `path`."""

    def __init__(
        self,
        path: Path,
        scenario: Scenario,
        seed: int,
        until: int | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        interrupts: InterruptSignals | None = None,
    ) -> None:
        """`until`: version at which to pause; None: do not. `interrupts`: signals at which to leave a checkpoint."""
        self.path = path
        self.until = until
        self.interrupts = InterruptSignals() if interrupts is None else interrupts
        self.ended: UnderWay | None = None
        """The seed at the end of its clock, until its results are on disk."""
        self._every = scenario.evaluation.checkpoint
        self._about = {"scenario": scenario.digest(), "seed": seed}
        self._failed = False
        """Whether the last checkpoint could not be written."""
        self._clock_s = clock_s
        self._last_version, self._due_s = 0, self._next_s(0.0)

    def _next_s(self, took_s: float) -> float:
        """Return when the next checkpoint is due, if they are written by the clock on the wall."""
        minutes = self._every.minutes if isinstance(self._every, Minutes) else 0.0
        return self._clock_s() + max(60 * minutes, took_s / SHARE)

    def at(self, version: int, state: UnderWay) -> None:
        """Write a checkpoint if one is due after this version. Raises PausedError where the seed is to pause."""
        pauses = self.until is not None and version >= self.until
        if isinstance(self._every, int):
            is_due = version >= self._last_version + self._every
        else:
            is_due = self._every is not None and self._clock_s() >= self._due_s
        if not (is_due or pauses):
            return
        state.rounds.finish()  # an evaluation that fails ends the run
        began_s = self._clock_s()
        try:
            self._write(version, state)
        except (OutputError, RunError) as error:
            if pauses:
                raise
            if not self._failed:
                log.warning("the run goes on without checkpoints: %s", error)
            self._failed = True
            if isinstance(error, RunError):
                self._every = None  # what cannot be pickled now never can; a full disk may have space again
        else:
            if self._failed:
                log.warning("checkpoints are written again")
            self._failed = False
        self._last_version, self._due_s = version, self._next_s(self._clock_s() - began_s)
        if pauses:
            raise PausedError(f"seed {self._about['seed']} pauses at version {version}")

    def _write(self, version: int, state: UnderWay) -> None:
        """Write a checkpoint. Raises OutputError, and RunError where a component cannot be pickled."""
        state.rounds.finish()
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(self.path, {**self._about, "version": version}, saved(state, _fixed(state)))

    def leave(self, state: UnderWay) -> NoReturn:
        """Write a checkpoint between two steps of the clock, and end the run as the signal that came asks for."""
        try:
            self._write(state.driver.clock.version, state)
        except (OutputError, RunError) as error:
            log.warning("no checkpoint is kept: %s", error)
        self.interrupts.stop()

    def keep_ended(self) -> None:
        """Write a checkpoint of a seed whose clock had ended when it was interrupted; nothing in other cases."""
        if self.ended is not None:
            with suppress(OutputError, RunError):
                self._write(self.ended.driver.clock.version, self.ended)

    def load(self, fresh: UnderWay) -> UnderWay | None:
        """Return the state of the checkpoint; None without one that can be used. `fresh`: the seed at its beginning,
        from which data and learner are taken. Raises PausedError where the seed is to pause before its checkpoint."""
        seed = self._about["seed"]
        try:
            found = read_checkpoint(self.path, self._about)
        except (RunError, OutputError) as error:
            log.warning("seed %s begins anew: %s", seed, error)
            return None
        if found is None:
            return None
        header, content = found
        if self.until is not None and header["version"] >= self.until:
            raise PausedError(f"seed {seed} pauses at version {header['version']} already")
        try:
            state = restored(content, _fixed(fresh))
        except Exception as error:
            log.warning("seed %s begins anew: %s cannot be read: %s", seed, self.path, error)
            return None
        self._last_version = header["version"]
        log.info("seed %s goes on after version %s", seed, header["version"])
        assert isinstance(state, UnderWay)
        return state

    def clear(self) -> None:
        """Remove the checkpoint."""
        self.ended = None
        self.path.unlink(missing_ok=True)


def _fixed(state: UnderWay) -> dict[str, Any]:
    """Return what is built again when a seed goes on: name -> object."""
    # Workers and instruments are given anew to a seed that goes on.
    return prepared_parts(state.federation, state.rounds) | {"pool": state.clients.pool}
