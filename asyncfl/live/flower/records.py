"""Messages between the server and the nodes of a Flower grid, and their conversion to Flower's records and back.

The server sends each message to one node. A node answers it once, with a reply; Flower answers with an error instead
where the node fails. Models are rows of float32. Flower is imported when it is needed.

models            ArrayRecord "arrays" for training; "model-0", "model-1", ... for scoring
config            ConfigRecord "config"
reply             ArrayRecord "arrays" or the only one, MetricRecord "metrics" or the only one, ConfigRecord "config",
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
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.serverapp import Grid

QUERY, READY, SCORES, TRAIN = "query", "query.ready", "query.scores", "train"
"""Flower's message types: introduce yourself | prepare | score these models | train this model."""

EXAMPLES, LOSS, SECONDS = "num-examples", "train_loss", "train-s"
"""Metrics that any ClientApp may report: training samples, mean loss of the last epoch, seconds of training."""

Value: TypeAlias = str | int | float | bool | bytes
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
    bytes_down: int = 0
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

    def text(self, name: str) -> str:
        """Return a text of the configuration, at most 1000 characters; empty where there is none."""
        return str(self.config.get(name, ""))[:1000]

    def number(self, name: str) -> float | None:
        """Return a metric that is a number; None where it is missing or no number."""
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else None

    def whole_number(self, name: str) -> int | None:
        """Return a metric that is a whole number, 0..2**53; None where it is missing or no such number."""
        value = self.number(name)
        return int(value) if value is not None and 0 <= value <= 2**53 and value.is_integer() else None


ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"


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

    @classmethod
    def flat(cls, n_parameters: int) -> Shapes:
        """Return the layout for asyncfl's ClientApp: one array of all parameters."""
        return cls((("parameters", (n_parameters,), "float32"),))

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return sum(int(np.prod(shape)) for _, shape, _ in self.parts)

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

    def __init__(self, grid: Grid, shapes: Shapes, timeout_s: float) -> None:
        """`timeout_s`: seconds after which a message without an answer expires."""
        self.grid, self.shapes, self.timeout_s = grid, shapes, timeout_s

    def nodes(self) -> Collection[int]:
        """Return the connected nodes."""
        return set(self.grid.get_node_ids())

    def send(self, messages: Iterable[FlowerMessage]) -> list[str | None]:
        """Send messages, and return the identifier of each; None: it was not accepted."""
        built = [to_flower(message, self.shapes, self.timeout_s) for message in messages]
        names = list(self.grid.push_messages(built))
        # A message that is too large makes Flower refuse the whole batch.
        return [str(name) if name else None for name in names] or [None] * len(built)

    def fetch(self, names: Collection[str]) -> list[Reply]:
        """Return the replies to these messages that have arrived; each reply is returned once."""
        return [from_flower(message, self.shapes) for message in self.grid.pull_messages(names)]


def to_flower(message: FlowerMessage, shapes: Shapes, timeout_s: float) -> Message:
    """Convert a message to Flower's."""
    flwr = flower()
    content = flwr.RecordDict()
    if message.models is not None:
        for number, model in enumerate(message.models):
            content[f"model-{number}" if message.kind == SCORES else ARRAYS] = shapes.record(model)
    content[CONFIG] = flwr.ConfigRecord(dict(message.config))
    built: Message = flwr.Message(content, dst_node_id=message.node, message_type=message.kind, ttl=timeout_s)
    return built


def models_of(content: RecordDict, shapes: Shapes) -> Vector:
    """Return the models in a message, (n_models, n_parameters). Raises FlowerError."""
    # By number: model-10 comes after model-9.
    ordered = sorted(content.array_records.items(), key=lambda named: (len(named[0]), named[0]))
    found = [model for _, record in ordered if (model := shapes.vector(record)) is not None]
    if not found or {len(model) for model in found} != {shapes.n_parameters} or len(found) != len(ordered):
        raise FlowerError(f"a message must hold models of {shapes.n_parameters} parameters, as one array 'parameters'")
    return np.stack(found)


def from_flower(message: Message, shapes: Shapes) -> Reply:
    """Convert Flower's reply or error."""
    identifier = message.metadata.reply_to_message_id
    if message.has_error():
        return Reply(identifier, int(message.error.code), message.error.reason or "")
    content = message.content
    arrays = _chosen(content.array_records, ARRAYS)
    metrics = _chosen(content.metric_records, METRICS)
    config = content.config_records.get(CONFIG, {})
    return Reply(
        identifier,
        model=None if arrays is None else shapes.vector(arrays),
        metrics={} if metrics is None else dict(metrics),
        config=dict(config),
    )


def _chosen(records: Mapping[str, Any], name: str) -> Any:
    """Return the record of that name, or the only one; None: neither."""
    if name in records:
        return records[name]
    return next(iter(records.values())) if len(records) == 1 else None


def answer(
    message: Message,
    metrics: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    model: Vector | None = None,
) -> Message:
    """Build a client's reply to a message. `model`: (length,), as one array."""
    flwr = flower()
    records = {METRICS: flwr.MetricRecord(dict(metrics)), CONFIG: flwr.ConfigRecord(dict(config or {}))}
    content = flwr.RecordDict(records)
    if model is not None:
        content[ARRAYS] = Shapes.flat(len(model)).record(model)
    reply: Message = flwr.Message(content, reply_to=message)
    return reply
