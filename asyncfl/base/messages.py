"""The messages to a server and the actions it answers with.

The server (`asyncfl.server`) is a state machine without clock or sockets. A driver, simulated or live, passes it the
messages defined in the first half of this module, each with the time of the event, and executes the actions defined in
the second half. These messages contain everything needed to reproduce a server's decisions.

Each field of a message to the server declares what it tells about training data (`asyncfl.base.disclosure`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.disclosure import BATCHES, BUDGETS, CLIP_NORM, LOSSES, SCORES, Leak, Public, Released


class Fate(StrEnum):
    """Outcome of a task. Each task has exactly one fate."""

    __hash__ = str.__hash__  # an enumeration's own is five times slower

    AGGREGATED = "aggregated"
    """Its update was aggregated into a published model (with weight 0 if a rule did not select it). Recorded when the
    model is published: if the run ends during the aggregation, the task is unfinished."""
    FLAGGED = "flagged"
    """A detector judged its update as poisoned."""
    REJECTED = "rejected"
    """Its update was malformed: not finite, of the wrong length, or not asked for (the last is no task's fate)."""
    STALE = "stale"
    """Its update was older than `max_staleness` versions."""
    BANNED = "banned"
    """Its client was banned before the update was used."""
    LATE = "late"
    """Its update arrived after its buffer was aggregated, and the protocol drops late updates."""
    SURPLUS = "surplus"
    """Its update was a reserve that was not needed."""
    LOST_DOWN = "lost_down"
    """The model did not reach the client."""
    LOST_UP = "lost_up"
    """The update did not reach the server."""
    DROPPED_OUT = "dropped_out"
    """The client gave the task up and reported it."""
    TIMED_OUT = "timed_out"
    """The server stopped waiting: it received nothing from the client until the lease ended."""
    UNFINISHED = "unfinished"
    """The run ended first."""


# --- to the server -------------------------------------------------------------------------------------------------

Time: TypeAlias = Annotated[
    float, Leak(BATCHES, Public("devices, links and availability decide it, not the values of samples"))
]
ServerNumber: TypeAlias = Annotated[int, Public("the server gave this number")]
ClientNumber: TypeAlias = Annotated[
    int, Leak(LOSSES, Public("the server chose the client at random, by its tasks so far or by times"))
]


@dataclass(frozen=True, slots=True)
class ClientJoined:
    """A client joins the federation with `samples` >= 1 training samples, and is idle.

    Only if the population was not known from the start (`ServerPlan.all_present`), or for a client that had left.
    """

    time_s: Time
    client: ClientNumber
    samples: Annotated[int, Public("neighbouring data sets replace samples or updates, and keep the number of samples")]


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """A client leaves the federation until it joins again. The updates of its tasks will not arrive."""

    time_s: Time
    client: ClientNumber


@dataclass(frozen=True, slots=True)
class ClientIdle:
    """A client is reachable and has no task."""

    time_s: Time
    client: ClientNumber


@dataclass(frozen=True, slots=True)
class UpdateArrived:
    """A complete update has reached the server. The server asks for its parameters by `Collect`."""

    time_s: Time
    task: ServerNumber


@dataclass(frozen=True, slots=True)
class Collected:
    """The parameters of the updates that `Collect` asked for, in its order.

    `losses`: (n_updates,) mean training loss of the last local epoch, as the clients report it; None: not reported,
    since nothing at the server needs it. `models`: (n_updates, n_parameters) float32, the models as uploaded.
    Read-only, and valid until the next `Collect`: copy what must be kept. `sound`: (n_updates,) bool, False where an
    update had the wrong length (its row is then meaningless).
    `clip_norm`: clipping norm that the clients used, None without clipping. `upload_std`: (n_updates,) standard
    deviation of the noise that the privacy scheme asked of each client for this upload (an attacker may have added
    none); None if it asked for none. `work`: (n_updates,) share of a task's epochs behind each update, above 0 to 1;
    None if all are whole.
    """

    time_s: Time
    tasks: Annotated[tuple[int, ...], Public("the server asked for them")]
    models: Annotated[Vector, Released("the scheme's noise on uploads; without noise the ledger counts a bare upload")]
    losses: Annotated[Floats | None, Leak(LOSSES, Public("not sent"))] = None
    sound: Annotated[Bools | None, Public("only attackers send another length")] = None
    clip_norm: Annotated[
        float | None, Leak(CLIP_NORM, Released("noise on the bits of adaptive clipping; a fixed norm is public"))
    ] = None
    upload_std: Annotated[
        Floats | None, Leak(BUDGETS, Public("it follows from the scheme, the samples and the clip norm"))
    ] = None
    work: Annotated[Floats | None, Public("the speed of the device decides it")] = None


@dataclass(frozen=True, slots=True)
class ScoresArrived:
    """A client's answer to `RequestScores`: one score per model, in the order of the request.

    `scores` is None if no answer will come: the request or the answer was lost, or the client is offline.
    """

    time_s: Time
    request: ServerNumber
    scores: Annotated[Floats | None, Leak(SCORES, Released("privacy.scores"))]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer set by `SetTimer` has fired."""

    time_s: Time
    timer: Annotated[str, Public("a timer of the server")]


@dataclass(frozen=True, slots=True)
class ClientGone:
    """The server has learnt that a client will not finish `task`.

    `fate`: how the task ended; None if the client could not be reached, so that the task never began.
    """

    time_s: Time
    client: ClientNumber
    task: ServerNumber
    fate: Annotated[
        Fate | None, Leak(BUDGETS, Public("availability, links, deadlines, and noise and number of uploads decide it"))
    ]


@dataclass(frozen=True, slots=True)
class ClientRetired:
    """A client's privacy budget is spent: it takes no further task after the one in flight, if any.

    It reports this with its last upload, or before the server has started if it cannot afford a single upload.
    """

    time_s: Time
    client: Annotated[int, Leak(BUDGETS, Public("the noise and number of its uploads decide when a client stops"))]


_Presence: TypeAlias = ClientJoined | ClientLeft | ClientIdle
Input: TypeAlias = _Presence | UpdateArrived | Collected | ScoresArrived | TimerFired | ClientGone | ClientRetired


# --- from the server -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish `model` as version `version` of the global model. `model`: (n_parameters,) float32, read-only.

    `participants`: number of updates in it. `staleness`: of each of these, in versions. `noise_std`: standard deviation
    of the server's noise on each parameter. `clip_norm`: norm to which these updates were clipped; None without
    clipping. `sent`: (n_parameters,) the compressed model that clients are sent; None if they are sent `model`.
    `waiting_max`: most updates that waited behind the buffer in work since the previous version.
    """

    version: int
    model: Vector = field(repr=False)
    participants: int = 0
    staleness: tuple[int, ...] = ()
    noise_std: float = 0.0
    clip_norm: float | None = None
    sent: Vector | None = field(default=None, repr=False)
    waiting_max: int = 0


@dataclass(frozen=True)
class Download:
    """A published model as clients are sent it.

    `model`: that the receivers reconstruct, (n_parameters,) float32; read-only. `payload`: the bytes that are sent;
    None: the numbers of the model.
    """

    model: Vector
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send version `version` to `client` for training. This is task `task`."""

    task: int
    client: int
    version: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Request the parameters of these tasks' updates; `Collected` answers it."""

    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RequestScores:
    """Send `models` ((n_models, n_parameters) float32) to `client`, which scores each on its own data. `request`:
    number of the request, which its answer repeats."""

    request: int
    client: int
    models: Vector = field(repr=False)


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Request `TimerFired` for `timer` in `delay_s` seconds. `timer`: name of the timer, such as `deadline:0`."""

    timer: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class Ban:
    """Give `client` no further tasks."""

    client: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Record the fate of `task`. `weight`: factor of its update in the aggregate. `staleness`: in versions, or -1 if
    the update was neither aggregated nor flagged. `detail`: text for the event log."""

    task: int
    fate: Fate
    staleness: int = -1
    weight: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """Record a detector's verdict on a buffer that was applied to `version`.

    In the order of the buffer: `clients`, the senders of the updates; `tasks` of the updates; `accused`: whether each
    was judged as poisoned; `unjudged`: whether it was left out because the detector could not judge it, empty if none
    was. `banned`: clients banned by this verdict. `notes`: the detector's statistics of the buffer, by name.
    """

    version: int
    clients: tuple[int, ...]
    accused: tuple[bool, ...]
    banned: tuple[int, ...]
    notes: tuple[tuple[str, float], ...] = ()
    tasks: tuple[int, ...] = ()
    unjudged: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class ShortBuffer:
    """Record that a buffer is aggregated with `held` updates because the `wanted` number can no longer arrive."""

    held: int
    wanted: int


@dataclass(frozen=True, slots=True)
class CohortRepeated:
    """Record that no update of a cohort of `size` clients arrived, and that another is drawn for the same version."""

    size: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run for `reason`."""

    reason: str


_Recorded: TypeAlias = Settle | Judged | ShortBuffer | CohortRepeated
Action: TypeAlias = Publish | Dispatch | Collect | RequestScores | SetTimer | Ban | _Recorded | Stop
