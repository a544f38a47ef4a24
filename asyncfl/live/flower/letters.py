"""What goes over a Flower grid and comes back, in words that need no Flower.

A server sends letters, each to one node; a node answers each once, with a reply or, where it does not, somebody on the
way with an error. Models are rows of float32; how they lie in Flower's records is the carrier's affair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeAlias

from asyncfl.base.errors import AsyncflError
from asyncfl.base.messages import Vector

QUERY, READY, SCORES, TRAIN = "query", "query.ready", "query.scores", "train"
"""Flower's types of the messages: who are you | prepare yourself | score these models | train this one."""

EXAMPLES, LOSS, SECONDS = "num-examples", "train_loss", "train-s"
"""Names of metrics that any ClientApp may tell: training samples, mean loss of the last epoch, seconds of training."""

Value: TypeAlias = str | int | float | bool | bytes
Metric: TypeAlias = int | float | list[int] | list[float]


class FlowerError(AsyncflError):
    """Flower, or an app on it, does not do what the federation needs."""


class Failure(IntEnum):
    """Why there is no reply: Flower's codes that are told apart. All others are failures of the client's app."""

    EXPIRED = 3
    """The letter is no more: nobody answered in its time."""
    LATE = 4
    """The answer came after the letter's time."""
    AWAY = 5
    """The node is not connected."""


@dataclass(frozen=True)
class Letter:
    """One message to a node."""

    node: int
    kind: str
    """Flower's message type."""
    config: Mapping[str, Value]
    models: Vector | None = None
    """(n_models, n_parameters) float32; None: none."""


@dataclass(frozen=True)
class Reply:
    """What came of a letter."""

    letter: str
    """Name of the letter, as it was given when it was sent."""
    failure: int | None = None
    """Code of the error; None: it was answered."""
    reason: str = ""
    """What is said of the failure."""
    model: Vector | None = None
    """(length,) float32; None: none came, or none that can be read."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    config: Mapping[str, Value] = field(default_factory=dict)


class Mail(Protocol):
    """Who carries letters: a grid of Flower, or a test's. Its methods may take a while: they are called in a thread."""

    def nodes(self) -> Collection[int]:
        """The nodes that are connected."""
        ...

    def send(self, letters: Iterable[Letter]) -> list[str | None]:
        """Send letters. The name of each; None: it was not taken."""
        ...

    def fetch(self, names: Collection[str]) -> list[Reply]:
        """What has come of these letters so far; each reply is handed over once."""
        ...
