"""Phases of a task or of a request for scores, with all random draws for them.

A driver takes a client through these phases one after another, and breaks off when the client goes offline. Durations,
retransmissions, eavesdropping and outcomes are decided here, for simulated and live clients alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asyncfl.client.compression import BYTES_PER_NUMBER
from asyncfl.protocol.events import NO_EPOCH, SCORING_DOWN, SCORING_UP, Kind, epochs_detail
from asyncfl.protocol.messages import Fate
from asyncfl.scenario import Scenario
from asyncfl.world import TaskDraws, Transfer

BYTES_PER_SCORE = 8
Way: TypeAlias = Literal["down", "up"]


@dataclass(frozen=True)
class Workload:
    """Costs of a task for a client and its links."""

    samples: NDArray[np.int64]
    """(clients,) training samples of each client."""
    epochs: int
    """Epochs of a whole task."""
    payload_bytes: int
    """Bytes of an uncompressed model, sent for scoring."""
    download_bytes: int
    """Bytes of a model sent for training, after compression, and of the algorithm's downloads."""
    upload_bytes: int
    """Bytes of an update, after compression, and of the algorithm's uploads."""
    deadline_s: float | None = None
    """Seconds of computing after which a client stops; None for no limit."""
    processed: NDArray[np.int64] | None = None
    """(clients,) samples that a whole task processes; None: all samples of the client in each epoch."""

    @property
    def n_parameters(self) -> int:
        """Numbers of an uncompressed model."""
        return self.payload_bytes // BYTES_PER_NUMBER

    @classmethod
    def of(cls, scenario: Scenario, samples: NDArray[np.int64]) -> Workload:
        """Return the costs of a task in `scenario`. `samples`: (clients,) training samples of each client."""
        n = scenario.n_parameters
        down, up = scenario.download_compression.payload_bytes(n), scenario.compression.payload_bytes(n)
        if not scenario.algorithm.off:
            uploads, downloads = scenario.payloads
            down += sum(one.payload_bytes for one in downloads)
            up += sum(one.payload_bytes for one in uploads)
        training = scenario.training
        load = cls(samples, training.epochs, BYTES_PER_NUMBER * n, down, up, training.deadline_s)
        if training.steps is None:
            return load
        return replace(load, processed=np.array([training.processed(int(one)) for one in samples], dtype=np.int64))

    def epochs_in(self, compute_s: float) -> int:
        """Return the epochs done at the deadline, if all epochs take `compute_s` seconds."""
        if self.deadline_s is None or compute_s <= self.deadline_s:
            return self.epochs
        # 1e-9: an epoch that ends at exactly this time is done, despite rounding.
        return math.floor(self.epochs * self.deadline_s / compute_s + 1e-9)


TaskEvent: TypeAlias = tuple[Kind, float, int, int, str]
"""Event of a task that is known before it happens: kind, time of the clock in seconds, bytes and number of the
transmission (-1 each for none), detail; as `TaskRecord.note` takes them."""


class MessageEvent(NamedTuple):
    """Event of a message in transmission, for the log."""

    at_s: float
    """Seconds after the start of the message."""
    kind: Kind
    """Retransmitted, or overheard whole or in part."""
    size: int = -1
    """Bytes sent again."""
    attempt: int = -1
    """Number of the transmission."""


class LinkMessage(NamedTuple):
    """A message in transmission."""

    transfer: Transfer
    way: Way
    speed: float = 1.0
    """Factor by which the transmission is faster than usual."""

    def events(self) -> Iterator[MessageEvent]:
        """Yield the events of the transmission: retransmissions, and when the eavesdropper has a part of the message
        and the whole of it; a part alone is no event where it comes with the whole."""
        for kind, at_s, size, attempt, _ in self.events_from(0.0):
            yield MessageEvent(at_s, kind, size, attempt)

    def events_from(self, now_s: float) -> list[TaskEvent]:
        """Return the same events of a message that is sent at `now_s`, at their times on the clock."""
        transfer, way, speed = self
        found: list[TaskEvent] = []
        if transfer.caught_s < transfer.overheard_s:
            found.append((Kind.OVERHEARD_IN_PART, now_s + transfer.caught_s / speed, -1, -1, way))
        for attempt, at_s in enumerate(transfer.resent_at_s, 2):
            found.append((Kind.RETRANSMITTED, now_s + at_s / speed, transfer.resent_bytes[attempt - 2], attempt, way))
        if transfer.overheard_s < math.inf:
            found.append((Kind.OVERHEARD, now_s + transfer.overheard_s / speed, -1, -1, way))
        return found

    def broken_off(self, after_s: float) -> tuple[int, int]:
        """Return the bytes sent, and transmissions begun, `after_s` seconds after its start."""
        elapsed_s = after_s * self.speed
        return self.transfer.sent_by(elapsed_s), self.transfer.attempts_by(elapsed_s)


class Phase(NamedTuple):
    """The next phase of a client's task."""

    begins: Kind
    ends: Kind
    duration_s: float
    fails: Fate | None = None
    """Fate of the task if it fails with this phase; None if it goes on or is done."""
    sending: LinkMessage | None = None
    """Message in transmission during the phase; None without one."""
    patience_s: float = math.inf
    """Seconds after which the client gives the task up, if that is not decided yet."""
    epochs: int | None = None
    """Epochs done when the client stops before the end of its training; None for all."""
    detail: str = ""
    """Detail of the event at its end."""

    def given_up(self, after_s: float, sent: tuple[int, int] | None = None) -> Phase:
        """Return this phase if the client gives its task up `after_s` seconds into it. Bytes that had left count as
        sent. `sent`: bytes sent, and transmissions begun; None to compute them for an unshared link."""
        sending = self.sending
        if sending is not None:
            cut = sending.transfer.cut(after_s * sending.speed)
            if sent is not None:
                cut = cut._replace(sent_bytes=sent[0], attempts=sent[1])
            sending = sending._replace(transfer=cut)
        return Phase(self.begins, Kind.DROPPED_OUT, after_s, Fate.DROPPED_OUT, sending)


class Step(NamedTuple):
    """One of the things that a client does for a task. Each begins when the one before has ended well."""

    begins: Kind
    ends: Kind
    """Kind of the event at its end, if the task goes on or is done."""
    way: Way | None = None
    """Direction of the message that is sent; None: the client trains."""
    lost: Fate = Fate.DROPPED_OUT
    """Fate of the task if it fails with this step."""


STEPS = (
    Step(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, "down", Fate.LOST_DOWN),
    Step(Kind.TRAINING_STARTED, Kind.TRAINED),
    Step(Kind.UPLOAD_STARTED, Kind.UPLOADED, "up", Fate.LOST_UP),
)
"""What a client does for a task, in order: one task at a time (`TaskPhases`), or many in columns (`TaskColumns`)."""


class TaskPhases:
    """Download, training and upload of a task, as far as the task gets. An iterator that can be pickled."""

    __slots__ = ("_draws", "_left_s", "_load", "_next", "_speed")

    def __init__(self, draws: TaskDraws, load: Workload, speed: float = 1.0) -> None:
        """`draws`: random numbers of this task; `load`: costs of a task; `speed`: factor by which the client is faster
        than usual."""
        self._draws, self._load, self._speed = draws, load, speed
        self._next = 0
        """Place of the next phase in `STEPS`; their number if there is none."""
        self._left_s = draws.gives_up_s()
        """Seconds until the client gives the task up."""

    def __iter__(self) -> TaskPhases:
        return self

    def __next__(self) -> Phase:
        """Return the next phase. Raises StopIteration after the last."""
        phase = self._whole()
        if self._left_s < phase.duration_s:
            phase, self._next = phase.given_up(self._left_s), len(STEPS)
        self._left_s -= phase.duration_s
        return phase

    def after(self, passed_s: float) -> Phase:
        """Return the next phase of a task whose phases may last longer than their duration; its `patience_s` tells when
        the client would give the task up. `passed_s`: seconds spent on the task so far, without waits for a place to
        compute. Raises StopIteration after the last phase."""
        phase = self._whole()
        return phase if self._left_s == math.inf else phase._replace(patience_s=max(0.0, self._left_s - passed_s))

    def _whole(self) -> Phase:
        """Return the next phase if the client does not give up."""
        draws, load, speed = self._draws, self._load, self._speed
        if self._next == len(STEPS):
            raise StopIteration
        step = STEPS[self._next]
        if step.way is None:
            phase = self._training(step)
        else:
            down = step.way == "down"
            transfer = draws.download(load.download_bytes) if down else draws.upload(load.upload_bytes)
            ends, fails = (step.ends, None) if transfer.delivered else (Kind.LOST, step.lost)
            message = LinkMessage(transfer, step.way, speed)
            phase = Phase(step.begins, ends, transfer.duration_s / speed, fails, message)
        self._next = self._next + 1 if phase.fails is None else len(STEPS)
        return phase

    def _training(self, step: Step) -> Phase:
        """Return the training, if the client does not give up."""
        draws, load = self._draws, self._load
        compute_s = _compute_s(draws, load, self._speed)
        epochs = load.epochs_in(compute_s)
        if load.deadline_s is not None:
            compute_s = min(compute_s, load.deadline_s)
        gives_up_at = draws.dropout()
        if gives_up_at is not None:
            return Phase(step.begins, Kind.DROPPED_OUT, compute_s * gives_up_at, step.lost)
        if not epochs:
            return Phase(step.begins, Kind.DROPPED_OUT, compute_s, step.lost, detail=NO_EPOCH)
        if epochs == load.epochs:
            return Phase(step.begins, step.ends, compute_s)
        return Phase(step.begins, step.ends, compute_s, epochs=epochs, detail=epochs_detail(epochs, load.epochs))


class TaskPlan(NamedTuple):
    """All phases of a task, each of which takes its own time."""

    events: list[TaskEvent]
    """Events between its begin and its end, in the order in which they happen."""
    overheard: Sequence[tuple[float, Way]]
    """Time at which each of its messages is overheard whole, and direction."""
    download_bytes: int
    """Bytes of the model that the client is sent."""
    last: Phase
    """The phase with which it ends."""
    end_s: float
    """Time at which the last phase ends, seconds."""
    downloaded_s: float
    """Time at which the client has the model, if the task goes on then; inf if not."""
    downloaded_bytes: int
    """Bytes sent by then."""
    trained_s: float
    """Time at which the client ends its training, if the task goes on then; inf if not."""
    epochs: int | None
    """Epochs done when the client stops before the end of its training; None for all."""

    @classmethod
    def of(cls, phases: TaskPhases, now_s: float, until_s: float, whole: bool) -> TaskPlan | None:
        """Return the plan of a task that begins now; None if it does not end before `until_s`, at which the client goes
        offline. `whole`: whether its phases, retransmissions and messages overheard in part are events too."""
        events: list[TaskEvent] = []
        overheard: list[tuple[float, Way]] = []
        download_bytes = downloaded_bytes = -1
        downloaded_s = trained_s = math.inf
        epochs = None
        while True:
            begins, ends, duration_s, fails, message, _, done, detail = phase = next(phases)
            end_s = now_s + duration_s
            if end_s >= until_s:
                return None
            if message is None:
                if whole:
                    events.append((begins, now_s, -1, -1, ""))
            else:
                transfer, way, _ = message
                if begins is Kind.DOWNLOAD_STARTED:
                    download_bytes = transfer.payload_bytes
                elif whole:
                    events.append((begins, now_s, transfer.payload_bytes, -1, ""))
                if transfer.resent_at_s or transfer.caught_s < math.inf:
                    marks = message.events_from(now_s)
                    heard = [marks[-1]] if transfer.overheard_s < math.inf else []
                    overheard += [(at_s, way) for _, at_s, *_ in heard]
                    if len(marks) > 1:
                        marks.sort(key=_TIME)
                    events += marks if whole else heard
            if fails is not None or ends is Kind.UPLOADED:
                downloaded = (downloaded_s, downloaded_bytes)
                return cls(events, overheard, download_bytes, phase, end_s, *downloaded, trained_s, epochs)
            if message is None:
                trained_s, epochs, about = end_s, done, (-1, -1, detail)
            else:
                downloaded_s, downloaded_bytes = end_s, transfer.sent_bytes
                about = (downloaded_bytes, transfer.attempts, way)
            if whole:
                events.append((ends, end_s, *about))
            now_s = end_s


_TIME = itemgetter(1)


def epochs_done(draws: TaskDraws, load: Workload, speed: float = 1.0) -> int:
    """Return the epochs that the client has done when it stops, 0..`load.epochs`. `speed`: see `TaskPhases`."""
    return load.epochs_in(_compute_s(draws, load, speed))


def _compute_s(draws: TaskDraws, load: Workload, speed: float) -> float:
    """Return the seconds that all epochs of a task take for a client that is faster than usual by the factor
    `speed`."""
    if load.processed is not None:
        return draws.compute_s(int(load.processed[draws.client])) / speed
    return draws.compute_s(int(load.samples[draws.client]), load.epochs) / speed


class ScoringPhase(NamedTuple):
    """The next phase of a client that scores models."""

    duration_s: float
    sending: LinkMessage | None = None
    """Message in transmission during the phase; None without one."""
    name: str = ""
    """Name of that message in the trace."""


class ScoringPhases:
    """Download of models, their evaluation, and upload of the scores, as far as the request gets. An iterator that can
    be pickled."""

    __slots__ = ("_draws", "_load", "_models", "_next")

    def __init__(self, draws: TaskDraws, load: Workload, models: int) -> None:
        """`draws`: random numbers of this request; `load`: costs of a task; `models`: number of models to score."""
        self._draws, self._load, self._models = draws, load, models
        self._next = 0

    def __iter__(self) -> ScoringPhases:
        return self

    def __next__(self) -> ScoringPhase:
        """Return the next phase. Raises StopIteration after the last."""
        draws, load, models = self._draws, self._load, self._models
        self._next += 1
        match self._next:
            case 1:
                down = LinkMessage(draws.download(models * load.payload_bytes), "down")
                if not down.transfer.delivered:
                    self._next = 3
                return ScoringPhase(down.transfer.duration_s, down, SCORING_DOWN)
            case 2:
                return ScoringPhase(draws.evaluate_s(int(load.samples[draws.client]), models))
            case 3:
                up = LinkMessage(draws.upload(models * BYTES_PER_SCORE), "up")
                return ScoringPhase(up.transfer.duration_s, up, SCORING_UP)
        raise StopIteration
