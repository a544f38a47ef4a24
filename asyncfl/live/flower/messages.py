"""Messages between the server and the nodes of a Flower grid, without Flower's own types.

The server sends each message to one node. A node answers it once, with a reply; Flower answers with an error instead
where the node fails. Models are rows of float32; `records` packs them into Flower's records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeAlias

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Vector

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


@dataclass(frozen=True)
class FlowerMessage:
    """A message to a node."""

    node: int
    kind: str
    """Flower's message type."""
    config: Mapping[str, Value]
    models: Vector | None = None
    """(n_models, n_parameters) float32, or None."""


@dataclass(frozen=True)
class Reply:
    """A node's reply to a message, or the error in its place."""

    message: str
    """Identifier of the message, which `FlowerTransport.send` returned."""
    failure: int | None = None
    """Code of the error; None: there is a reply."""
    reason: str = ""
    """Text of the error."""
    model: Vector | None = None
    """(length,) float32; None: none, or an unreadable one."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    config: Mapping[str, Value] = field(default_factory=dict)


class FlowerTransport(Protocol):
    """Transport of messages: a Flower grid, or a stand-in for tests. Its methods may block; they run in a thread."""

    def nodes(self) -> Collection[int]:
        """Return the connected nodes."""
        ...

    def send(self, messages: Iterable[FlowerMessage]) -> list[str | None]:
        """Send messages, and return the identifier of each; None: it was not accepted."""
        ...

    def fetch(self, names: Collection[str]) -> list[Reply]:
        """Return the replies to these messages that have arrived; each reply is returned once."""
        ...
