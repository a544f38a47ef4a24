"""Bytes of messages on their way through a Flower grid, between asyncfl's server and its own ClientApp.

A message and the models that come with it are one frame, the content of a Flower message:

    bytes 0-1   b"AF"
    byte  2     version of messages and frames, `VERSION`
    byte  3     0: models as float32; 1: one model, or from clients its difference from the one that was sent, as the
                scenario's compression of downloads, or of updates, packs it
    bytes 4-7   length of the message (little-endian, as all numbers here)
    bytes 8-15  rows and columns of the models that come with it, 4 bytes each
    then        the message as MessagePack, 0-bytes up to a multiple of 8, the models

Everything is checked before it is used: lengths against limits before anything is read, the message against its type
before anything acts on it. Nothing is ever executed or unpickled.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np

from asyncfl.algorithms import Payload
from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.component import kind_of
from asyncfl.base.errors import MessageError, shortened
from asyncfl.base.message import Message
from asyncfl.client.compression import Compression
from asyncfl.extras.live.client_messages import MOST_MODELS, ClientScoreRequest, FromClient, Hello, Task, Welcome
from asyncfl.protocol.messages import Download

VERSION = 7
"""Version of messages and frames. A client and a server of different versions refuse each other by name."""

MAGIC = b"AF"
_HEAD = struct.Struct("<2sBBIII")
_ALIGNED = 8

S = TypeVar("S")

PLAIN, PACKED = 0, 1
"""Form of the models in a frame: float32, or packed by the scenario's compression."""
MESSAGE_BYTES = 300_000
"""Longest message of a frame, without the models and the algorithm's vectors."""

_Scores: TypeAlias = Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_MODELS)]


def _plain(array: Floats | Vector) -> list[float] | bytes:
    """Return an array of a message as MessagePack holds it: (n,) scores as numbers, a float32 vector as its bytes."""
    return array.astype("<f4", copy=False).tobytes() if array.dtype == np.float32 else list(array.tolist())


def _array(of: Any, value: Any) -> Floats | Vector:
    """Return an array of a message: (n,) scores, or a float32 vector. Raises ValidationError for what is neither.

    `of`: type of the field.
    """
    if of == Vector:
        vector = np.frombuffer(msgspec.convert(value, bytes), dtype="<f4")
        return vector.astype(np.float32, copy=False)
    return np.array(msgspec.convert(value, _Scores), dtype=np.float64)


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)


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
        self,
        of: Any,
        rows: int,
        columns: int,
        packing: Compression | None = None,
        always_packed: int | None = None,
        payloads: Sequence[Payload] = (),
    ) -> None:
        """`of`: the union of messages that may come, with at most `rows` models of `columns` parameters. `packing`: how
        a model may be packed; None: none may.

        `always_packed`: length of models that come packed only, where there is a packing, and of all that do; None:
        packed or not, they may have any. `payloads`: the algorithm's vectors that a message may hold.
        """
        self._bytes = MESSAGE_BYTES + sum(one.payload_bytes for one in payloads)
        self._rows, self._columns = rows, columns
        self._always_packed = always_packed
        self._packing = None if packing is None or packing.off else packing
        self._decoder: msgspec.msgpack.Decoder[S] = msgspec.msgpack.Decoder(of, dec_hook=_array)

    def decode(self, frame: bytes | bytearray | memoryview) -> tuple[S, Vector]:
        """Return the message in a frame, and the models that come with it: (rows, columns) float32, read-only.

        Raises MessageError.
        """
        if len(frame) < _HEAD.size:
            raise MessageError(f"a frame has at least {_HEAD.size} bytes, got {len(frame)}")
        magic, version, form, length, rows, columns = _HEAD.unpack_from(frame)
        if magic != MAGIC:
            raise MessageError(f"a frame begins with {MAGIC!r}, got {bytes(magic)!r}: the other side is not asyncfl")
        if version != VERSION:
            raise MessageError(
                f"the version of messages must be {VERSION}, got {version}; both sides need the same asyncfl"
            )
        packing = self._packing if form == PACKED else None
        if form != PLAIN and packing is None:
            raise MessageError(
                f"models must be written as here (float32{', or packed' if self._packing else ''}), got {form}"
            )
        if length > self._bytes:
            raise MessageError(f"a message has at most {self._bytes} bytes, got {length}")
        if rows > (self._rows if packing is None else 1) or columns > self._columns or bool(rows) != bool(columns):
            raise MessageError(
                f"at most {self._rows} models of {self._columns} parameters may come, got {rows} of {columns}"
            )
        wanted = self._always_packed
        if rows and self._packing is not None and wanted is not None:
            if form == PACKED and columns != wanted:
                raise MessageError(f"what is packed must be an update of {wanted} parameters, got {columns}")
            if form == PLAIN and columns == wanted:
                kind = kind_of(self._packing)
                raise MessageError(
                    f"updates of {wanted} parameters come packed here ({kind}), got float32; both sides need the same "
                    "compression"
                )
        start = _HEAD.size + length
        start += -start % _ALIGNED
        size = 4 * rows * columns if packing is None else packing.payload_bytes(columns)
        if len(frame) != start + size:
            raise MessageError(f"a frame with these lengths has {start + size} bytes, got {len(frame)}")
        view = memoryview(frame)
        if any(view[_HEAD.size + length : start]):
            raise MessageError("what fills a frame up must be 0")
        try:
            message = self._decoder.decode(view[_HEAD.size : _HEAD.size + length])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MessageError(f"not a message: {shortened(error, 200)}") from None
        try:
            models = packing.unpacked(view[start:], columns) if packing else np.frombuffer(view[start:], dtype="<f4")
        except ValueError as error:
            raise MessageError(f"not a packed model: {shortened(error, 200)}") from None
        models = models.reshape(rows, columns)
        models.flags.writeable = False
        return message, models


def task_decoder(
    n_parameters: int, packing: Compression | None = None, payloads: Sequence[Payload] = ()
) -> Decoder[Task | ClientScoreRequest]:
    """Return the decoder of tasks and requests. `n_parameters`: of their models; `packing`: of downloads, None for
    none; `payloads`: that come with downloads."""
    return Decoder(Task | ClientScoreRequest, MOST_MODELS, n_parameters, packing, None, payloads)


def answer_decoder(
    n_parameters: int, packing: Compression | None = None, payloads: Sequence[Payload] = ()
) -> Decoder[FromClient]:
    """Return the decoder of clients' answers. `packing`: of updates, None for none; `payloads`: that come with them. A
    float32 model of another length passes: the server judges it, as it judges one that is not finite."""
    return Decoder(FromClient, 1, 2 * n_parameters + 1024, packing, n_parameters, payloads)


HELLOS: Decoder[Hello] = Decoder(Hello, 0, 0)
WELCOMES: Decoder[Welcome] = Decoder(Welcome, 0, 0)
