"""Messages between the server and the nodes of a Flower grid, and their conversion to Flower's records and back.

The server sends each message to one node. A node answers it once, with a reply; Flower answers with an error instead
where the node fails. asyncfl's own ClientApp is sent frames of the live wire, and replies with frames; a user's
ClientApp is sent models, rows of float32. Flower is imported when it is needed.

config            ConfigRecord "config"
models            ArrayRecord "arrays" for training; "model-0", "model-1", ... for scoring
reply             ConfigRecord "config", MetricRecord "metrics" or the only one, ArrayRecord "arrays" or the only one,
                  each optional
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Vector

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Message
    from flwr.serverapp import Grid

QUERY, SCORES, TRAIN = "query", "query.scores", "train"
"""Flower's message types: introduce yourself | score these models | train this model."""
ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"

Value: TypeAlias = str | int | float | bool | bytes | list[bytes]
Metric: TypeAlias = int | float | list[int] | list[float]


class FlowerError(AsyncflError):
    """Flower, or an app on it, cannot take part in the federation."""


class Failure(IntEnum):
    """Flower's error codes for a missing reply. All other codes are failures of the client's app."""

    EXPIRED = 3
    """The message expired without an answer."""
    LATE = 4
    """The answer came after the message had expired."""
    AWAY = 5
    """The node is not connected."""


@dataclass(eq=False)
class FlowerMessage:
    """A message to a node, until it is answered."""

    node: int
    kind: str
    """Flower's message type."""
    config: Mapping[str, Value]
    models: Vector | None = None
    """(n_models, n_parameters) float32, or None."""
    of: int = -1
    """Number of the task, or of the request for scores; -1 for none."""
    name: str | None = None
    """Identifier that the grid gave it; None: it has not been sent."""
    sent_s: float = 0.0
    """Time of the event loop."""


@dataclass(frozen=True)
class Reply:
    """A node's reply to a message, or the error in its place."""

    message: str = ""
    """Identifier of the message, which `GridTransport.send` returned."""
    failure: int | None = None
    """Code of the error; None: there is a reply."""
    reason: str = ""
    """Text of the error."""
    model: Vector | None = None
    """(length,) float32; None: none, or an unreadable one."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    config: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_lost(self) -> bool:
        """Whether Flower lost the message or its answer; other failures are the app's."""
        return self.failure in list(Failure)


def flower() -> Any:
    """Import and return `flwr.app`. Raises FlowerError where Flower is missing."""
    try:
        import flwr.app
    except ModuleNotFoundError as error:
        raise FlowerError(
            f"Flower is missing ({error.name}): pip install '.[flower]' -c constraints-flower.txt, in "
            "an environment of its own, since it wants older versions of typer and rich"
        ) from None
    return flwr.app


@dataclass(frozen=True)
class Shapes:
    """Layout of a flat model in an ArrayRecord: names, shapes and types of its arrays, in order."""

    parts: tuple[tuple[str, tuple[int, ...], str], ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> Shapes:
        """Return the layout of a record."""
        return cls(tuple((name, tuple(one.shape), one.dtype) for name, one in record.items()))

    def record(self, model: Vector) -> ArrayRecord:
        """Convert a flat model to a record. Values of integer arrays are rounded."""
        flwr = flower()
        out: ArrayRecord = flwr.ArrayRecord()
        start = 0
        for name, shape, dtype in self.parts:
            size = int(np.prod(shape))
            part = model[start : start + size].reshape(shape)
            kind = np.dtype(dtype)
            part = part.astype(kind) if kind.kind == "f" else np.rint(part).astype(kind)
            out[name] = flwr.Array(np.array(part, order="C"))
            start += size
        return out

    def vector(self, record: ArrayRecord) -> Vector | None:
        """Convert a record to a flat model of any length; None where the record has other arrays."""
        names = [name for name, _, _ in self.parts]
        if not names or sorted(record) != sorted(names):
            return None
        try:
            parts = [np.asarray(record[name].numpy(), dtype=np.float32).reshape(-1) for name in names]
        except (TypeError, ValueError):
            return None
        return np.concatenate(parts)


class GridTransport:
    """Transport of messages over a Flower grid. Its methods may block."""

    def __init__(self, grid: Grid, timeout_s: float, shapes: Shapes | None = None) -> None:
        """`timeout_s`: seconds after which a message without an answer expires. `shapes`: layout of models; None: only
        frames are sent."""
        self.grid, self.timeout_s, self.shapes = grid, timeout_s, shapes

    def nodes(self) -> Collection[int]:
        """Return the connected nodes."""
        return set(self.grid.get_node_ids())

    def send(self, messages: Iterable[FlowerMessage]) -> list[str | None]:
        """Send messages, and return the identifier of each; None: it was not accepted."""
        built = [self._to_flower(message) for message in messages]
        names = list(self.grid.push_messages(built))
        # A message that is too large makes Flower refuse the whole batch.
        return [str(name) if name else None for name in names] or [None] * len(built)

    def fetch(self, names: Collection[str]) -> list[Reply]:
        """Return the replies to these messages that have arrived; each reply is returned once."""
        return [self._from_flower(message) for message in self.grid.pull_messages(names)]

    def _to_flower(self, message: FlowerMessage) -> Message:
        flwr = flower()
        content = flwr.RecordDict({CONFIG: flwr.ConfigRecord(dict(message.config))})
        for number, model in enumerate(() if message.models is None else message.models):
            assert self.shapes is not None
            content[f"model-{number}" if message.kind == SCORES else ARRAYS] = self.shapes.record(model)
        built: Message = flwr.Message(content, dst_node_id=message.node, message_type=message.kind, ttl=self.timeout_s)
        return built

    def _from_flower(self, message: Message) -> Reply:
        identifier = message.metadata.reply_to_message_id
        if message.has_error():
            return Reply(identifier, int(message.error.code), message.error.reason or "")
        arrays = _chosen(message.content.array_records, ARRAYS)
        return Reply(
            identifier,
            model=None if arrays is None or self.shapes is None else self.shapes.vector(arrays),
            metrics=dict(_chosen(message.content.metric_records, METRICS) or {}),
            config=dict(message.content.config_records.get(CONFIG, {})),
        )


def _chosen(records: Mapping[str, Any], name: str) -> Any:
    """Return the record of that name, or the only one; None: neither."""
    return records.get(name, next(iter(records.values())) if len(records) == 1 else None)
