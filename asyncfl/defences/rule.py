"""Base class of aggregation rules, and the meaning of the weights of updates.

The weight of an update is its factor in a weighted sum: its staleness weight times its share of the data. The sum of
the weights of a buffer, at most 1, is called the *mass* of the buffer: a buffer of stale updates has less mass and
moves the model less. A robust rule replaces the weighted mean by a robust centre and multiplies it by the mass:
`aggregate = mass * centre`. All rules are therefore slowed down by staleness in the same way and can be compared.

Each rule documents whether weights also enter its centre. Rules that select updates, and order statistics, count
clients instead, because an attacker may claim any number of samples. An update of weight 0 is ignored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.component import Component
from asyncfl.base.errors import Fault
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.distances import is_finite


@dataclass(frozen=True)
class Aggregate:
    """The result of aggregating one buffer."""

    update: Vector
    """(n_parameters,) float32: change of the global model."""
    weights: Floats
    """(n_updates,) weight of each update in the result, 0 if it was not selected; unchanged by rules that select anew
    for each parameter (median, trimmed mean)."""
    notes: tuple[str, ...] = ()
    """Notes on this buffer; the summary of the run reports each with the number of versions it occurred in."""


class Rule(Component):
    """Base class of aggregation rules, which turn the updates of a buffer into one.

    A rule without memory implements `aggregate`, and `weigh` if it selects updates. A rule that needs the senders
    implements `combine`. A rule with memory implements `start` and `step`, and receives its state with each buffer.
    """

    one_of: ClassVar[tuple[str, ...]] = ("aggregate", "combine", "step")
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.participants",
        "clients.aggregated",
        "clients.used",
        "clients.malicious_used",
        "events.aggregated",
        "summary.notes",
    )

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        """Return the aggregate of the updates of a buffer, (n_parameters,) float32.

        `updates`: (n_updates, n_parameters) float32, differences from the models that clients were sent. `weights`:
        (n_updates,) float64, >= 0, the factor of each update in a weighted sum: staleness weight times share of the
        data. The arguments are not modified.
        """
        raise NotImplementedError

    def weigh(self, updates: Vector, weights: Floats) -> Floats:
        """Return the weight (n_updates,) of each update in the aggregate: `weights`, or less where the rule selects."""
        return weights.copy()

    def combine(self, buffer: Buffer, weights: Floats) -> Vector:
        """Return the aggregate of `buffer`, (n_parameters,) float32. Override it if the rule needs the senders."""
        return self.aggregate(buffer.deltas, weights)

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        """Return the state before the first buffer. `random`: the rule's own random stream."""
        return None

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        """Return the aggregate of `buffer` and the next state. The server calls this; `state` is not modified."""
        return Aggregate(self.combine(buffer, weights), self.weigh(buffer.deltas, weights)), state

    def forget_client(self, state: Any, client: int) -> Any:
        """Return the state without the data of `client`, which was banned. `state` is not modified."""
        return state

    @property
    def is_linear(self) -> bool:
        """Whether the aggregate always equals the weighted sum `weights @ updates`."""
        return False

    @property
    def is_coordinatewise(self) -> bool:
        """Whether each parameter depends only on its own values, in any order, and on the weights. Values of one
        parameter may then be exchanged between updates."""
        return False

    @property
    def needs_root(self) -> bool:
        """Whether the rule requires the server's own samples (`DefenceContext.root_gradient`)."""
        return False

    @property
    def needs_classes(self) -> bool:
        """Whether the rule requires predictions of classes, so that it cannot be used in a regression."""
        return False

    def lowered(self, collected: int) -> tuple[str, ...]:
        """Return notes on settings that are lowered for as few as `collected` updates."""
        return ()

    def faults(self, collected: int) -> Iterator[Fault]:
        """Yield why the rule cannot work with `collected` updates. Field names are relative to the rule."""
        yield from ()

    def notes(self, collected: int) -> list[str]:
        """Return warnings for the user about this rule with buffers of `collected` updates."""
        return []


def present(updates: Vector, weights: Floats) -> Ints:
    """Return the row indices (k,), ascending, of the updates (n_updates, n_parameters) with a weight above 0.

    Raises:
        ValueError: there is no update, shapes differ, a weight is negative or not finite, or an update is not finite.
    """
    if updates.ndim != 2 or not updates.size:
        raise ValueError(f"updates must be (n_updates, n_parameters), at least one of each, got {updates.shape}")
    if weights.shape != (len(updates),):
        raise ValueError(f"weights must be ({len(updates)},), one per update, got {weights.shape}")
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if len(wrong):
        raise ValueError(f"weights must be finite and >= 0, got {wrong[0]}")
    if unsound := [row for row, update in enumerate(updates) if not is_finite(update)]:
        raise ValueError(f"updates must be finite, rows {unsound} are not; reject them before they are aggregated")
    return np.flatnonzero(weights)
