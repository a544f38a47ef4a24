"""Base of aggregation rules, and what the weights of updates mean to a rule.

A weight is what an update would count in a weighted sum: its staleness weight times its share of the data. The weights
of a buffer add up to its *mass*, at most 1: a buffer of stale updates moves the model less. A robust rule puts a robust
centre in place of the weighted mean and keeps the mass: `aggregate = mass * centre`. So every rule slows down for
staleness alike, and rules are compared under the same conditions. Whether the weights also count inside the centre
each rule says; selecting rules and order statistics count clients, since a poisoner may claim any number of samples.
An update of weight 0 takes no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext
from asyncfl.defences.norms import is_finite
from asyncfl.errors import Fault
from asyncfl.messages import Vector


@dataclass(frozen=True)
class Aggregate:
    """What a rule made of a buffer: the update, and what each of the buffer's updates weighed in it."""

    update: Vector
    """(n_parameters,) float32: how the model moves."""
    weights: NDArray[np.float64]
    """(n_updates,) what each update weighed in it, 0 where it was not chosen. Rules that choose anew for each parameter
    (median, trimmed mean) leave the weights as they were."""
    notes: tuple[str, ...] = ()
    """What was unusual about this buffer; the notes of a run's summary tell each with the number of versions."""


class Rule(Component):
    """Base of aggregation rules: turns the updates of a buffer into one.

    A rule without memory writes `aggregate`, and `weigh` if it chooses. One that has to know who sent what writes
    `combine`; one with memory writes `start` and `step`, and is handed its state back at each buffer.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.participants",
        "clients.aggregated",
        "clients.used",
        "clients.malicious_used",
        "events.aggregated",
        "summary.notes",
    )

    def aggregate(self, updates: Vector, weights: NDArray[np.float64]) -> Vector:
        """One update out of many.

        `updates`: (n_updates, n_parameters) float32, what each client changed in the model it was sent.
        `weights`: (n_updates,) float64, >= 0, the factor that each update would have in a weighted sum: staleness times
        share of the data. Returns (n_parameters,) float32. Neither argument is changed.
        """
        raise NotImplementedError

    def weigh(self, updates: Vector, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_updates,) what each update weighs in the aggregate: `weights`, or less where the rule chooses."""
        return weights.copy()

    def combine(self, buffer: Buffer, weights: NDArray[np.float64]) -> Vector:
        """`aggregate` of what the clients of `buffer` changed; (n_parameters,) float32."""
        return self.aggregate(buffer.deltas, weights)

    def start(self, context: DefenceContext, random: np.random.Generator) -> Any:
        """State before the first buffer; None for rules without memory. `random` is the rule's own stream."""
        return None

    def step(self, state: Any, buffer: Buffer, weights: NDArray[np.float64]) -> tuple[Aggregate, Any]:
        """The aggregate of `buffer` and the next state. This is what a run calls; `state` is not changed."""
        return Aggregate(self.combine(buffer, weights), self.weigh(buffer.deltas, weights)), state

    def forget_client(self, state: Any, client: int) -> Any:
        """The next state after `client` was banned: forget what it sent. `state` is not changed."""
        return state

    @property
    def is_linear(self) -> bool:
        """Whether the aggregate is always the weighted sum, `weights @ updates`, which may be computed in its place."""
        return False

    @property
    def is_coordinatewise(self) -> bool:
        """Whether each parameter of the aggregate follows from the updates' values of that parameter alone (and from
        the weights), in whatever order they come: then it does not matter if values change places between updates."""
        return False

    @property
    def needs_root(self) -> bool:
        """Whether the rule cannot work without the server's own samples (`DefenceContext.root_gradient`)."""
        return False

    def fit_to(self, collected: int) -> tuple[Self, tuple[str, ...]]:
        """The rule as it can be computed from `collected` updates, and notes on what had to be lowered for that."""
        return self, ()

    def faults(self, collected: int) -> Iterator[Fault]:
        """Why the rule cannot work with `collected` updates in a buffer, fields named relative to it; none: it can."""
        yield from ()

    def notes(self, collected: int) -> list[str]:
        """What a user should know before running the rule with `collected` updates in a buffer."""
        return []


def present(updates: Vector, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rows of the updates that take part: those of weight above 0.

    Raises ValueError for what no rule can work with: no updates, other shapes, weights that are negative or not
    finite, updates that are not finite.
    """
    if updates.ndim != 2 or not updates.size:
        raise ValueError(f"updates must be (n_updates, n_parameters), at least one of each, got {updates.shape}")
    if weights.shape != (len(updates),):
        raise ValueError(f"weights must be ({len(updates)},), one per update, got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"weights must be finite and >= 0, got {weights[~(np.isfinite(weights) & (weights >= 0))][0]}")
    unsound = [row for row, update in enumerate(updates) if not is_finite(update)]
    if unsound:
        raise ValueError(f"updates must be finite, rows {unsound} are not; reject them before they are aggregated")
    return np.flatnonzero(weights)
