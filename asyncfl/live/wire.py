"""Messages between a server and its clients, and their bytes: a codec that knows neither sockets nor time.

A client introduces itself (`Hello`) and is let in (`Welcome`) or not (`Refused`). Then the server gives it tasks and
requests for scores, and the client answers each once: it keeps an answer until the server has `Heard` it. Clients tell
durations, in seconds since they had the message that they answer, never times of day: no two clocks have to agree. Each
field of a message declares what it discloses about training data (`asyncfl.base.disclosure`). A frame:

    bytes 0-1   b"AF"
    byte  2     version of the wire, `VERSION`
    byte  3     0: models as float32; 1: one model, or from clients its difference from the one that was sent, as the
                scenario's compression of downloads, or of updates, packs it
    bytes 4-7   length of the message (little-endian, as all numbers here)
    bytes 8-15  rows and columns of the models that come with it, 4 bytes each
    then        the message as MessagePack, 0-bytes up to a multiple of 8, the models

Everything is checked before it is used: lengths against limits before anything is read, the message against its type
before anything acts on it. Nothing that comes over the wire is ever executed or unpickled.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from asyncfl.base.component import kind_of
from asyncfl.base.disclosure import BATCHES, BUDGETS, LOSSES, SCORES, Leak, Public, Released
from asyncfl.base.errors import AsyncflError, shortened
from asyncfl.base.messages import Download, Vector
from asyncfl.client.compression import Compression

VERSION = 4
"""Version of the messages and frames. A client and a server of different versions refuse each other by name."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Number: TypeAlias = Annotated[int, Meta(ge=-1, le=2**53)]
Turn: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]
"""A larger turn would draw the noise of another one: half of a stream's number is the client's."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
ServerNumber: TypeAlias = Annotated[Count, Public("the server gave this number")]
_TIME = Leak(BATCHES, Public("devices, links and availability decide it, not the values of samples"))
_CHOICE = Leak(LOSSES, Public("the server chose the client at random, by its tasks so far or by times"))
Word: TypeAlias = Annotated[str, Meta(max_length=100)]
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]
Tasks: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=100)]


class Noted(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that happened at a client, for the trace."""

    after_s: Annotated[Seconds, _TIME]
    """Seconds after the client had the task, or the request."""
    kind: Annotated[Word, Leak(BUDGETS, Public("links, availability, and noise and number of uploads decide it"))]
    size: Annotated[Number, Public("the model's and the compression's size")] = -1
    attempt: Annotated[Number, Public("the link decides it")] = -1
    detail: Annotated[
        Text, Leak(BUDGETS, Public("direction, epochs by a deadline, or noise and number of uploads"))
    ] = ""


MOST_MODELS = 4096
"""Most models of a request for scores."""

SENT = "sent"
"""Kind of a note of a message of a request for scores, for its bytes: it is no event."""

Report: TypeAlias = Annotated[tuple[Noted, ...], Meta(max_length=4096), Leak(BUDGETS, Public("see `Noted`"))]
"""Events at a client, in their order."""


class Message(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all messages."""


class Numbered(Message, frozen=True, kw_only=True):
    """Base of clients' messages of which none may be lost or heard twice when a connection ends."""

    number: Annotated[Count, Public("it counts messages, the times of which devices and links decide")] = 0
    """1, 2, ... for each message of a process of the client; a client says one again until it is `Heard`. 0: the
    connection itself sees to that."""


# --- by clients ---------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True):
    """A client introduces itself. The first that it says, and again when it is back."""

    name: Annotated[str, Meta(min_length=1, max_length=100), Public("the client's owner chose it")]
    token: Annotated[str, Meta(max_length=200), Public("the server's operator gave it")]
    samples: Annotated[Count, Public("neighbouring data sets replace samples or updates, and keep their number")]
    tasks: Annotated[Tasks, Public("availability decides it")] = ()
    """Tasks that it is still at."""
    instance: Annotated[Word, Public("drawn at random")] = ""
    """Random name of this process, so that one that is back is told from a second that uses the same name."""


class Ready(Numbered, frozen=True):
    """The client has prepared itself, and waits for the beginning. Sent once, after the first `Welcome`."""

    online: Annotated[bool, Public("the world decides it")]
    """Whether the world has it online at the beginning."""
    spent: Annotated[Text | None, Leak(BUDGETS, Public("noise and number of uploads decide it"))]
    """Why it cannot afford a single upload; None: it can."""
    remembers: Annotated[bool, Public("whether an earlier process of the client was given a task")] = False
    """Whether it goes on with what an earlier process of it had kept: spent budget, own layers, left-over."""


class Update(Numbered, frozen=True):
    """A task is done. The model comes with it: (1, n_parameters), with the noise of the privacy scheme."""

    task: ServerNumber
    loss: Annotated[float | None, Leak(LOSSES, Public("not sent"))]
    """Mean training loss of the last local epoch; None: not needed (`Scenario.reports_losses`)."""
    added_std: Annotated[float, Leak(BUDGETS, Public("it follows from the scheme and the number of samples"))]
    """Standard deviation of the noise that was added when the training was over."""
    epsilon: Annotated[float | None, Leak(BUDGETS, Public("the scheme's, the same in each run"))]
    """Budget of this upload; None: the same for all."""
    report: Report
    epochs: Annotated[Annotated[int, Meta(ge=1, le=2**53)] | None, Public("the speed of the device decides it")] = None
    """Passes over its samples that it comes of; None: all of a task."""


class Gone(Numbered, frozen=True):
    """A task has ended without an update."""

    task: ServerNumber
    fate: Annotated[
        Word, Leak(BUDGETS, Public("availability, links, deadlines, and noise and number of uploads decide it"))
    ]
    """`Fate` of the task."""
    report: Report


class Scores(Numbered, frozen=True):
    """The answer to a request for scores."""

    request: ServerNumber
    scores: Annotated[
        Annotated[tuple[float, ...], Meta(max_length=MOST_MODELS)] | None, Leak(SCORES, Released("privacy.scores"))
    ]
    """One for each model; None: there will be none."""
    report: Report


class Spent(Numbered, frozen=True):
    """The client's privacy budget is spent: after the task that it is at, it answers no more."""

    detail: Annotated[Text, Leak(BUDGETS, Public("noise and number of uploads decide it"))]


class Trace(Numbered, frozen=True):
    """Events of a task or request that the client abandons, for the trace alone: the server decides nothing by them."""

    task: Annotated[Number, Public("the server gave this number")]
    """Its task; -1: a request for scores."""
    report: Report


class Leaving(Numbered, frozen=True):
    """The client takes part no longer, and abandons its task."""


class Pong(Message, frozen=True):
    """The answer to a `Ping`."""


# --- by the server ------------------------------------------------------------------------------------------------


class Welcome(Message, frozen=True):
    """The client is let in."""

    client: ServerNumber
    run: Annotated[Word, Public("drawn at random")]
    """Name of the run, another one each time."""
    scenario: Annotated[str, Meta(max_length=200_000), Public("the operator wrote it")]
    """The scenario as YAML."""
    seed: Annotated[Count, Public("the operator chose it; no noise is drawn from it")]
    clients: Annotated[Count, Public("the scenario's")]
    smallest_samples: Annotated[Count, Public("neighbouring data sets keep the number of samples")]
    """Samples of the client that has fewest: noise is calibrated to it."""
    exposures: Annotated[Count, Public("the scenario's, or measured on a clock without data")]
    """Uploads of one client that an eavesdropper is assumed to hold."""
    shape: Annotated[bool, Public("the operator chose it")]
    """Whether the client waits as the scenario's world says."""
    speedup: Annotated[float, Meta(ge=0.001, le=1e6), Public("the operator chose it")]
    """Seconds of the scenario in a second."""
    now_s: Annotated[float, Meta(ge=-1e12, le=1e12), _TIME]
    """Seconds of the scenario since the start; below 0 before it."""
    gone: Annotated[Tasks, _TIME]
    """Tasks that the client is at, and that nobody waits for any more."""
    heard: Annotated[Count, Public("it repeats the client's count")] = 0
    """The last `number` of this process of the client that was heard."""


class Heard(Message, frozen=True):
    """The client's messages up to this `number` were heard, and will not be lost."""

    number: Annotated[Count, Public("it repeats the client's count")]


class Begin(Message, frozen=True):
    """The run begins now, or began `now_s` ago."""

    now_s: Annotated[Seconds, _TIME] = 0.0


class Task(Message, frozen=True):
    """Train this model: (1, n_parameters), with the noise of its updates or the server's."""

    task: Annotated[Count, _CHOICE]
    turn: Annotated[Turn, _CHOICE]
    """Tasks that the client was given before."""
    version: ServerNumber
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether the client is to attack: the experiment's affair, not the federation's."""


class Judge(Message, frozen=True):
    """Score these models on your own data: (n_models, n_parameters), updates with the noise of their clients."""

    request: ServerNumber
    turn: Annotated[Turn, Released("the updates that the detector compares")]
    """Requests that the client was sent before."""
    last_version: Annotated[Count, _CHOICE] = 0
    """Base version of its task that was collected last."""
    last_turn: Annotated[Turn, _CHOICE] = 0
    attacks: Annotated[bool, Public("the experiment draws the attackers")] = False
    """Whether that task was an attacker's."""


class Ping(Message, frozen=True):
    """Are you there?"""


class Refused(Message, frozen=True):
    """The server ends the connection, for this reason."""

    reason: Annotated[Text, Public("the connection's settings decide it")]


class Over(Message, frozen=True):
    """The run is over, for this reason."""

    reason: Annotated[Text, Leak(BUDGETS, Released("published models and verdicts; else times and budgets decide it"))]


FromClient: TypeAlias = Hello | Ready | Update | Gone | Scores | Spent | Trace | Leaving | Pong
FromServer: TypeAlias = Welcome | Heard | Begin | Task | Judge | Ping | Refused | Over


# --- frames -----------------------------------------------------------------------------------------------------------

MAGIC = b"AF"
_HEAD = struct.Struct("<2sBBIII")
_ALIGNED = 8

S = TypeVar("S")

PLAIN, PACKED = 0, 1
"""How the models of a frame are written."""


class WireError(AsyncflError):
    """A frame is malformed, or its message is not allowed; the connection ends."""


MESSAGE_BYTES = 300_000
"""Longest message of a frame, without the models."""
WELCOME_BYTES = _HEAD.size + MESSAGE_BYTES + _ALIGNED
"""Longest frame that a server sends to a client which it has not let in."""
HELLO_BYTES = 8192
"""Longest frame that a client sends before it is let in."""

_encoder = msgspec.msgpack.Encoder()


def encode(message: Message, models: Vector | Download | None = None) -> bytes:
    """Encode a message as a frame. `models`: (rows, columns) float32 that come with it, or a download; None: none."""
    header, form, rows, columns = _encoder.encode(message), PLAIN, 0, 0
    payload: bytes | memoryview = b""
    if isinstance(models, Download) and models.payload is not None:
        form, rows, columns, payload = PACKED, 1, len(models.model), models.payload
    elif models is not None:
        plain = models.model[None] if isinstance(models, Download) else models
        rows, columns = plain.shape
        payload = np.ascontiguousarray(plain, dtype="<f4").data
    head = _HEAD.pack(MAGIC, VERSION, form, len(header), rows, columns)
    return b"".join((head, header, bytes(-(_HEAD.size + len(header)) % _ALIGNED), payload))


class Decoder(Generic[S]):
    """Reads the messages of one side."""

    def __init__(
        self, of: Any, rows: int, columns: int, packing: Compression | None = None, always_packed: int | None = None
    ) -> None:
        """`of`: the union of messages that may come, with at most `rows` models of `columns` parameters. `packing`: how
        a model may be packed; None: none may.

        `always_packed`: length of models that come packed only, where there is a packing, and of all that do; None:
        packed or not, they may have any.
        """
        self._rows, self._columns = rows, columns
        self.frame_bytes = WELCOME_BYTES + 4 * rows * columns
        """The longest frame."""
        self._always_packed = always_packed
        self._packing = None if packing is None or packing.off else packing
        self._decoder: msgspec.msgpack.Decoder[S] = msgspec.msgpack.Decoder(of)

    def decode(self, frame: bytes | bytearray | memoryview) -> tuple[S, Vector]:
        """Return the message in a frame, and the models that come with it: (rows, columns) float32, read-only.

        Raises WireError.
        """
        if len(frame) < _HEAD.size:
            raise WireError(f"a frame has at least {_HEAD.size} bytes, got {len(frame)}")
        magic, version, form, length, rows, columns = _HEAD.unpack_from(frame)
        if magic != MAGIC:
            raise WireError(
                f"a frame begins with {MAGIC!r}, got {bytes(magic)!r}: the other side speaks another protocol"
            )
        if version != VERSION:
            raise WireError(f"the wire's version must be {VERSION}, got {version}; both sides need the same asyncfl")
        packing = self._packing if form == PACKED else None
        if form != PLAIN and packing is None:
            raise WireError(
                f"models must be written as here (float32{', or packed' if self._packing else ''}), got {form}"
            )
        if length > MESSAGE_BYTES:
            raise WireError(f"a message has at most {MESSAGE_BYTES} bytes, got {length}")
        if rows > (self._rows if packing is None else 1) or columns > self._columns or bool(rows) != bool(columns):
            raise WireError(
                f"at most {self._rows} models of {self._columns} parameters may come, got {rows} of {columns}"
            )
        wanted = self._always_packed
        if rows and self._packing is not None and wanted is not None:
            if form == PACKED and columns != wanted:
                raise WireError(f"what is packed must be an update of {wanted} parameters, got {columns}")
            if form == PLAIN and columns == wanted:
                kind = kind_of(self._packing)
                raise WireError(
                    f"updates of {wanted} parameters come packed here ({kind}), got float32; both sides need the same "
                    "compression"
                )
        start = _HEAD.size + length
        start += -start % _ALIGNED
        size = 4 * rows * columns if packing is None else packing.payload_bytes(columns)
        if len(frame) != start + size:
            raise WireError(f"a frame with these lengths has {start + size} bytes, got {len(frame)}")
        view = memoryview(frame)
        if any(view[_HEAD.size + length : start]):
            raise WireError("what fills a frame up must be 0")
        try:
            message = self._decoder.decode(view[_HEAD.size : _HEAD.size + length])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(f"not a message: {shortened(error, 200)}") from None
        try:
            models = packing.unpacked(view[start:], columns) if packing else np.frombuffer(view[start:], dtype="<f4")
        except ValueError as error:
            raise WireError(f"not a packed model: {shortened(error, 200)}") from None
        models = models.reshape(rows, columns)
        models.flags.writeable = False
        return message, models


def client_decoder(
    n_parameters: int, packing: Compression | None = None, models: int = MOST_MODELS
) -> Decoder[FromServer]:
    """Return the decoder of a client. `n_parameters`: of its models, at most `models` of which come together;
    `packing`: of downloads, None for none."""
    return Decoder(FromServer, models, n_parameters, packing)


def server_decoder(n_parameters: int, packing: Compression | None = None) -> Decoder[FromClient]:
    """Return the decoder of a server. `packing`: of updates, None for none. A float32 model of another length passes:
    the server judges it, as it judges one that is not finite."""
    return Decoder(FromClient, 1, 2 * n_parameters + 1024, packing, n_parameters)
