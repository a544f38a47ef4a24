"""The messages to a server and the actions it answers with.

The server (`asyncfl.protocol`) is a state machine without clock or sockets. A driver, simulated or live, passes it the
messages defined in the first half of this module, each with the time of the event, and executes the actions defined in
the second half. These messages contain everything needed to reproduce a server's decisions.

All messages are frozen msgspec structs with a tag. Recordings are written and read from them
(`asyncfl.protocol.recording`), and messages of live clients (`asyncfl.extras.live.client_messages`) derive from those
that say the same to or from the server. Only messages to the server have a time, since only its driver knows the time:
no struct of a client has `time_s`.

Each field that reaches a client or the server declares what it tells about training data (`asyncfl.base.disclosure`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.disclosure import BUDGETS, CLIP_NORM, LOSSES, PAYLOADS, SCORES, Leak, Public, Released
from asyncfl.base.message import CHOICE, ClientNumber, Count, Message, ServerNumber, Text, Time
from asyncfl.defences.score_request import ScoreRequest as ScoreRequest


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
    BELOW_THRESHOLD = "below_threshold"
    """Too few clients took part in secure aggregation: no masks were agreed on, or the sum could not be unmasked."""
    UNFINISHED = "unfinished"
    """The run ended first."""


# --- answers of clients --------------------------------------------------------------------------------------------


class TaskAnswer(Message, frozen=True):
    """A client's answer to a task."""

    task: ServerNumber


class ScoreAnswer(Message, frozen=True):
    """A client's answer to a `ScoreRequest`: one score per model, in the order of the request.

    `scores`: (n_models,); None if no answer will come, since the request or the answer was lost, or the client is
    offline.
    """

    request: ServerNumber
    scores: Annotated[Floats | None, Leak(SCORES, Released("privacy.scores"))]


# --- to the server -------------------------------------------------------------------------------------------------


class TimedMessage(Message, frozen=True, kw_only=True):
    """Base class of messages to the server, with the time of the event."""

    time_s: Time


class ClientJoined(TimedMessage, frozen=True):
    """A client joins the federation with `samples` >= 1 training samples, and is idle.

    Only if the population was not known from the start (`ServerPlan.all_present`), or for a client that had left.
    """

    client: ClientNumber
    samples: Annotated[int, Public("neighbouring data sets replace samples or updates, and keep the number of samples")]


class ClientLeft(TimedMessage, frozen=True):
    """A client leaves the federation until it joins again. The updates of its tasks will not arrive."""

    client: ClientNumber


class ClientIdle(TimedMessage, frozen=True):
    """A client is reachable and has no task."""

    client: ClientNumber


class UpdateArrived(TaskAnswer, frozen=True, kw_only=True):
    """A complete update has reached the server. The server asks for its parameters by `Collect`."""

    time_s: Time


class Collected(TimedMessage, frozen=True):
    """The parameters of the updates that `Collect` asked for, in its order.

    `losses`: (n_updates,) mean training loss of the last local epoch, as the clients report it; None: not reported,
    since nothing at the server needs it. `models`: (n_updates, n_parameters) float32, the models as uploaded.
    Read-only, and valid until the next `Collect`: copy what must be kept. `sound`: (n_updates,) bool, False where an
    update had the wrong length (its row is then meaningless).
    `clip_norm`: clipping norm that the clients used, None without clipping. `upload_std`: (n_updates,) standard
    deviation of the noise that the privacy scheme asked of each client for this upload (an attacker may have added
    none); None if it asked for none. `work`: (n_updates,) share of a task's epochs behind each update, above 0 to 1;
    None if all are whole. `payloads`: name -> (n_updates, size) the algorithm's vectors of each upload.
    """

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
    payloads: Annotated[
        dict[str, Vector], Leak(PAYLOADS, Public("none, or the algorithm declares that they tell nothing uncounted"))
    ] = msgspec.field(default_factory=dict)


class CollectedSum(Collected, frozen=True):
    """The securely aggregated sum of the updates that `CollectSum` asked for. The models have length 0.

    `total`: (n_parameters,) sum of the updates, each times its weight; None on a timeline. `unmasked`: False if too few
    clients answered to unmask it.
    """

    total: Annotated[Floats | None, Released("the noise of all its updates, which the ledger counts")] = None
    unmasked: Annotated[bool, Public("devices, links and availability decide who answers")] = True


class ScoresArrived(ScoreAnswer, frozen=True, kw_only=True):
    """A client's scores have reached the server, or the server has learnt that none will come."""

    time_s: Time


class TimerFired(TimedMessage, frozen=True):
    """A timer set by `SetTimer` has fired."""

    timer: Annotated[str, Public("a timer of the server")]


class ClientGone(TimedMessage, frozen=True):
    """The server has learnt that a client will not finish `task`.

    `fate`: how the task ended; None if the client could not be reached, so that the task never began.
    """

    client: ClientNumber
    task: ServerNumber
    fate: Annotated[
        Fate | None, Leak(BUDGETS, Public("availability, links, deadlines, and noise and number of uploads decide it"))
    ]


class ClientRetired(TimedMessage, frozen=True):
    """A client's privacy budget is spent: it takes no further task after the one in flight, if any.

    It reports this with its last upload, or before the server has started if it cannot afford a single upload.
    """

    client: Annotated[int, Leak(BUDGETS, Public("the noise and number of its uploads decide when a client stops"))]


_Presence: TypeAlias = ClientJoined | ClientLeft | ClientIdle
Input: TypeAlias = _Presence | UpdateArrived | Collected | ScoresArrived | TimerFired | ClientGone | ClientRetired


# --- from the server -----------------------------------------------------------------------------------------------


class Publish(Message, frozen=True):
    """Publish `model` as version `version` of the global model. `model`: (n_parameters,) float32, read-only.

    `participants`: number of updates in it. `staleness`: of each of these, in versions. `noise_std`: standard deviation
    of the server's noise on each parameter. `clip_norm`: norm to which these updates were clipped; None without
    clipping. `sent`: (n_parameters,) the compressed model that clients are sent; None if they are sent `model`.
    `waiting_max`: most updates that waited behind the buffer in work since the previous version.
    `payloads`: the algorithm's vectors that are sent with it.
    """

    version: int
    model: Vector
    participants: int = 0
    staleness: tuple[int, ...] = ()
    noise_std: float = 0.0
    clip_norm: float | None = None
    sent: Vector | None = None
    waiting_max: int = 0
    payloads: dict[str, Vector] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Download:
    """A published model as clients are sent it.

    `model`: that the receivers reconstruct, (n_parameters,) float32; read-only. `payload`: the bytes that are sent;
    None: the numbers of the model.
    """

    model: Vector
    payload: bytes | None = None
    payloads: Mapping[str, Vector] = field(default_factory=dict)
    """The algorithm's vectors that are sent with it, by name."""


class Dispatch(Message, frozen=True):
    """Send version `version` to `client` for training. This is task `task`."""

    task: Annotated[Count, CHOICE]
    client: ClientNumber
    version: ServerNumber


class Collect(Message, frozen=True):
    """Request the parameters of these tasks' updates; `Collected` answers it."""

    tasks: tuple[int, ...]


class CollectSum(Collect, frozen=True):
    """Request the securely aggregated sum of these tasks' updates; `CollectedSum` answers it. `weights`: integer factor
    of each update."""

    weights: tuple[int, ...] = ()


class SetTimer(Message, frozen=True):
    """Request `TimerFired` for `timer` in `delay_s` seconds. `timer`: name of the timer, such as `deadline:0`."""

    timer: str
    delay_s: float


class Ban(Message, frozen=True):
    """Give `client` no further tasks."""

    client: int


class Settle(Message, frozen=True):
    """Record the fate of `task`. `weight`: factor of its update in the aggregate. `staleness`: in versions, or -1 if
    the update was neither aggregated nor flagged. `detail`: text for the event log."""

    task: int
    fate: Fate
    staleness: int = -1
    weight: float = 0.0
    detail: str = ""


class BufferVerdict(Message, frozen=True):
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


class ShortBuffer(Message, frozen=True):
    """Record that a buffer is aggregated with `held` updates because the `wanted` number can no longer arrive."""

    held: int
    wanted: int


class CohortRepeated(Message, frozen=True):
    """Record that no update of a cohort of `size` clients arrived, and that another is drawn for the same version."""

    size: int


class Stop(Message, frozen=True):
    """End the run for `reason`."""

    reason: Annotated[Text, Leak(BUDGETS, Released("published models and verdicts; else times and budgets decide it"))]


_Recorded: TypeAlias = Settle | BufferVerdict | ShortBuffer | CohortRepeated
Action: TypeAlias = Publish | Dispatch | Collect | ScoreRequest | SetTimer | Ban | _Recorded | Stop
