"""The path of a task, or of a request for scores, through the world: its phases, with all that is drawn for them.

Whoever drives a federation takes a client through these phases one after another, and breaks off where the client goes
offline. What a phase costs in time, what is sent again, what the tap hears, and how it ends, is settled here, for
simulated and for real clients alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.federation.traffic import Way
from asyncfl.messages import Fate
from asyncfl.trace import Kind
from asyncfl.trace.events import NO_EPOCH, SCORING_DOWN, SCORING_UP, epochs_detail
from asyncfl.world import TaskDraws, Transfer

BYTES_PER_SCORE = 8


class MessageEvent(NamedTuple):
    """Something to write down of a message on its way."""

    at_s: float
    """Seconds after the start of the message."""
    kind: Kind
    """Sent again, or overheard."""
    size: int = -1
    """Bytes sent again."""
    attempt: int = -1
    """Number of the transmission."""


class LinkMessage(NamedTuple):
    """A message that is on its way."""

    transfer: Transfer
    way: Way
    speed: float = 1.0
    """How many times as fast as usual."""

    def events(self) -> Iterator[MessageEvent]:
        """What there is to write down of it on its way: when packets are sent again, and when the tap has all."""
        transfer, speed = self.transfer, self.speed
        for attempt, (at_s, size) in enumerate(zip(transfer.resent_at_s, transfer.resent_bytes, strict=True), 2):
            yield MessageEvent(at_s / speed, Kind.RETRANSMITTED, size, attempt)
        if transfer.overheard:
            yield MessageEvent(transfer.overheard_s / speed, Kind.OVERHEARD)

    def broken_off(self, after_s: float) -> tuple[int, int]:
        """Bytes that had left, and transmissions that had begun, `after_s` seconds after its start."""
        elapsed_s = after_s * self.speed
        return self.transfer.sent_by(elapsed_s), self.transfer.attempts_by(elapsed_s)


class Phase(NamedTuple):
    """What a client does next."""

    begins: Kind
    ends: Kind
    duration_s: float
    fails: Fate | None = None
    """The fate of the task where it ends with this phase, in vain; None: it goes on, or is done."""
    sending: LinkMessage | None = None
    """The message that is on its way meanwhile."""
    patience_s: float = math.inf
    """Seconds after which the client gives the task up, where that is not settled yet."""
    epochs: int | None = None
    """Epochs that it has done when it stops before its training is over; None: all."""
    detail: str = ""
    """What the trace says of its end."""

    def given_up(self, after_s: float, sent: tuple[int, int] | None = None) -> Phase:
        """This phase where the client gives its task up in it. What had left of a message was sent.

        `sent`: bytes that had left, and transmissions that had begun; None: as many as there would be alone.
        """
        sending = self.sending
        if sending is not None:
            cut = sending.transfer.cut(after_s * sending.speed)
            if sent is not None:
                cut = cut._replace(sent_bytes=sent[0], attempts=sent[1])
            sending = sending._replace(transfer=cut)
        return Phase(self.begins, Kind.DROPPED_OUT, after_s, Fate.DROPPED_OUT, sending)


def task_phases(
    draws: TaskDraws, load: Workload, speed: float = 1.0, passed_s: Callable[[], float] | None = None
) -> Iterator[Phase]:
    """Download, training and upload of a task, as far as it comes.

    `speed`: how many times as fast as usual. `passed_s`: seconds at the task so far (waits for a place to compute
    do not count), asked for when the next phase is, where phases may last longer than they say: then `patience_s` tells
    when the client would give up.
    """
    phases, left_s = _whole(draws, load, speed), draws.gives_up_s()
    return phases if left_s == math.inf else _until(phases, left_s, passed_s)


def _until(phases: Iterator[Phase], until_s: float, passed_s: Callable[[], float] | None) -> Iterator[Phase]:
    """The phases of a client that gives up after so many seconds, unless it is done."""
    left_s = until_s
    for phase in phases:
        if passed_s is not None:
            yield phase._replace(patience_s=max(0.0, until_s - passed_s()))
            continue
        if left_s < phase.duration_s:
            yield phase.given_up(left_s)
            return
        left_s -= phase.duration_s
        yield phase


def _whole(draws: TaskDraws, load: Workload, speed: float) -> Iterator[Phase]:
    """The phases of a client that has all the time that it needs."""
    down = LinkMessage(draws.download(load.download_bytes), "down", speed)
    yield _sent(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, down, Fate.LOST_DOWN)
    if not down.transfer.delivered:
        return
    compute_s = _compute_s(draws, load, speed)
    epochs = load.epochs_in(compute_s)
    if load.deadline_s is not None:
        compute_s = min(compute_s, load.deadline_s)
    gives_up_at = draws.dropout()
    if gives_up_at is not None:
        yield Phase(Kind.TRAINING_STARTED, Kind.DROPPED_OUT, compute_s * gives_up_at, Fate.DROPPED_OUT)
        return
    if not epochs:
        yield Phase(Kind.TRAINING_STARTED, Kind.DROPPED_OUT, compute_s, Fate.DROPPED_OUT, detail=NO_EPOCH)
        return
    whole = Phase(Kind.TRAINING_STARTED, Kind.TRAINED, compute_s)
    stopped = whole._replace(epochs=epochs, detail=epochs_detail(epochs, load.epochs))
    yield whole if epochs == load.epochs else stopped
    up = LinkMessage(draws.upload(load.upload_bytes), "up", speed)
    yield _sent(Kind.UPLOAD_STARTED, Kind.UPLOADED, up, Fate.LOST_UP)


def epochs_done(draws: TaskDraws, load: Workload, speed: float = 1.0) -> int:
    """Epochs of a task that its client has done when it stops, 0..`load.epochs`. `speed`: see `task_phases`."""
    return load.epochs_in(_compute_s(draws, load, speed))


def _compute_s(draws: TaskDraws, load: Workload, speed: float) -> float:
    """Seconds that all epochs of a task take."""
    return draws.compute_s(int(load.samples[draws.client]), load.epochs) / speed


def _sent(begins: Kind, ends: Kind, sending: LinkMessage, lost: Fate) -> Phase:
    transfer = sending.transfer
    duration_s = transfer.duration_s / sending.speed
    if transfer.delivered:
        return Phase(begins, ends, duration_s, sending=sending)
    return Phase(begins, Kind.LOST, duration_s, lost, sending)


class ScoringPhase(NamedTuple):
    """What a client does next that is to score models."""

    duration_s: float
    sending: LinkMessage | None = None
    """The message that is on its way meanwhile."""
    said: str = ""
    """What that message is called in the trace."""


def scoring_phases(draws: TaskDraws, load: Workload, models: int) -> Iterator[ScoringPhase]:
    """Download of `models` models, their evaluation and the upload of the scores, as far as it comes."""
    down = LinkMessage(draws.download(models * load.payload_bytes), "down")
    yield ScoringPhase(down.transfer.duration_s, down, SCORING_DOWN)
    if not down.transfer.delivered:
        return
    yield ScoringPhase(draws.evaluate_s(int(load.samples[draws.client]), models))
    up = LinkMessage(draws.upload(models * BYTES_PER_SCORE), "up")
    yield ScoringPhase(up.transfer.duration_s, up, SCORING_UP)
