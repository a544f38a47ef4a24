"""What the server is told and what it answers: the whole vocabulary between a server and the world around it.

The server (`asyncfl.server`) is a state machine without clock or sockets. A driver, simulated or real, feeds it the
messages of the first half of this file, each with the time at which it happened, and carries out those of the second
half. Whatever is needed to reproduce a server's decisions is in these messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]


class Fate(StrEnum):
    """How a task ended. Every task ends in exactly one of these."""

    AGGREGATED = "aggregated"
    """Its update was weighed into a published model (with weight 0 where a rule did not choose it). Settled when the
    model is published: a run that ends during the aggregation leaves it unfinished."""
    FLAGGED = "flagged"
    """A detector took it for poison."""
    REJECTED = "rejected"
    """It was malformed: not finite, of the wrong length, or not asked for (then it is the fate of no task)."""
    STALE = "stale"
    """It was more versions old than `max_staleness` allows."""
    BANNED = "banned"
    """Its client was banned before it could be used."""
    LATE = "late"
    """It came after the buffer it was meant for had opened, and late updates are dropped."""
    SURPLUS = "surplus"
    """It was asked for as a reserve and not needed."""
    LOST_DOWN = "lost_down"
    """The model never reached the client."""
    LOST_UP = "lost_up"
    """The update never reached the server."""
    DROPPED_OUT = "dropped_out"
    """The client gave up in the middle of the task, and said so."""
    TIMED_OUT = "timed_out"
    """The server stopped waiting for it: nothing was heard of its client until its lease ended."""
    UNFINISHED = "unfinished"
    """The run ended first."""


# --- to the server -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClientJoined:
    """A client takes part from now on, with so many samples to train on, and has nothing to do.

    Only where the population was not known from the start (`ServerPlan.present`), or of a client that had left.
    """

    time_s: float
    client: int
    samples: int
    """>= 1."""


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """A client takes no part any more, unless it joins again: what it was at will not come."""

    time_s: float
    client: int


@dataclass(frozen=True, slots=True)
class ClientIdle:
    """A client is reachable and has nothing to do."""

    time_s: float
    client: int


@dataclass(frozen=True, slots=True)
class UpdateArrived:
    """A complete update has reached the server. Its parameters are asked for by `Collect`."""

    time_s: float
    task: int


@dataclass(frozen=True, slots=True)
class Collected:
    """The parameters of the updates that `Collect` asked for, in its order.

    `models`: (n_updates, n_parameters) float32, the models as they were uploaded. On loan and read-only until the next
    `Collect`; who wants to keep them copies. `sound`: (n_updates,) bool, False where an update had the wrong length
    (its row is then without meaning). `clip_norm` is the clipping norm that the clients used, None where none.
    `upload_std`: (n_updates,) standard deviation of the noise that the privacy scheme asked of each client for this
    upload (an attacker may have added none); None: it asked for none. `work`: (n_updates,) share of a task's epochs
    that each update comes of, above 0 to 1; None: all are whole.
    """

    time_s: float
    tasks: tuple[int, ...]
    models: Vector
    losses: NDArray[np.float64]
    sound: NDArray[np.bool_] | None = None
    clip_norm: float | None = None
    upload_std: NDArray[np.float64] | None = None
    work: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class ScoresArrived:
    """A client's answer to `RequestScores`: one score per model it was sent, in that order.

    None: no answer will come (the request or the answer was lost, or the client is offline).
    """

    time_s: float
    request: int
    scores: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer that `SetTimer` asked for has run out."""

    time_s: float
    timer: str


@dataclass(frozen=True, slots=True)
class ClientGone:
    """The server has learnt that a client will not finish `task`.

    `fate` says how it ended; None means that the client could not even be reached, so that the task never began.
    """

    time_s: float
    client: int
    task: int
    fate: Fate | None


@dataclass(frozen=True, slots=True)
class BudgetSpent:
    """A client says that its privacy budget is spent: once a task that it may be at is over, it answers no more.

    It says so with its last upload; a client that cannot afford even one, before the server has started.
    """

    time_s: float
    client: int


Input: TypeAlias = (
    ClientJoined
    | ClientLeft
    | ClientIdle
    | UpdateArrived
    | Collected
    | ScoresArrived
    | TimerFired
    | ClientGone
    | BudgetSpent
)


# --- from the server -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """`model` is the global model from now on, as version `version`. `model`: (n_parameters,) float32, read-only.

    `sent`: (n_parameters,) what of it clients are sent; None: the model.
    """

    version: int
    model: Vector = field(repr=False)
    participants: int = 0
    staleness: tuple[int, ...] = ()
    noise_std: float = 0.0
    clip_norm: float | None = None
    sent: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send version `version` to `client` and have it trained: this is task `task`."""

    task: int
    client: int
    version: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Hand over the parameters of these tasks."""

    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RequestScores:
    """Send `models` ((n_models, n_parameters) float32) to `client` and have it score each on its own data."""

    request: int
    client: int
    models: Vector = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire `timer` `delay_s` seconds from now."""

    timer: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class Ban:
    """Never again deal with `client`."""

    client: int


@dataclass(frozen=True, slots=True)
class Settle:
    """The record of how `task` ended. `weight`: factor of its update in the aggregate; `staleness`: in versions."""

    task: int
    fate: Fate
    staleness: int = -1
    weight: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """The record of a detector's verdict on a buffer that was applied to `version`."""

    version: int
    clients: tuple[int, ...]
    """Senders, in the order of the buffer."""
    accused: tuple[bool, ...]
    """Which of their updates were taken for poison."""
    banned: tuple[int, ...]
    """Clients banned by it."""
    notes: tuple[tuple[str, float], ...] = ()
    """The detector's numbers about the buffer, by name."""
    tasks: tuple[int, ...] = ()
    """Tasks that the updates are of, in the order of the buffer."""
    unjudged: tuple[bool, ...] = ()
    """Which of their updates were left out though nothing could be found out about them; empty for none."""


@dataclass(frozen=True, slots=True)
class ShortBuffer:
    """The record that the buffer opens with `held` updates because the `wanted` number can no longer come."""

    held: int
    wanted: int


@dataclass(frozen=True, slots=True)
class CohortRepeated:
    """The record that nothing came of a cohort of `size` clients, and that another is drawn for the same version."""

    size: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The run is over, and why."""

    reason: str


Action: TypeAlias = (
    Publish
    | Dispatch
    | Collect
    | RequestScores
    | SetTimer
    | Ban
    | Settle
    | Judged
    | ShortBuffer
    | CohortRepeated
    | Stop
)
