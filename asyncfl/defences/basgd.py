"""BASGD: averages updates in groups by sender, then aggregates the groups' means by a robust rule."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.component import choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.geometric_median import GeometricMedian
from asyncfl.defences.krum import Krum
from asyncfl.defences.mean import Mean
from asyncfl.defences.median import Median
from asyncfl.defences.rule import Aggregate, Rule, present
from asyncfl.defences.trimmed_mean import TrimmedMean

AnyInnerRule: Any = choice(Rule, Median, TrimmedMean, GeometricMedian, Krum, Mean)
"""Annotation of a field that holds a rule for the means of groups."""


class Basgd(Rule):
    """A robust rule over the means of `buffers` groups of clients; client i belongs to group i mod `buffers`.

    Use it against flooding: a client that sends many updates affects only one group. Each attacker spoils its whole
    group, so there must be more than twice as many groups as attackers. Within a group updates count by their weights.
    Groups without an update are left out, and an explicit `byzantine` of the inner rule is lowered, with a note, if too
    few groups remain. The original waits until each group has an update; here the protocol's `open` decides. Source:
    Yang & Li 2021, algorithm 2.
    """

    kind: Literal["basgd"] = "basgd"
    buffers: Annotated[int, Field(ge=1), MeasuredIn("groups")] = 10
    """B: number of groups of clients, >= 1."""
    rule: AnyInnerRule = Median()
    """Rule that aggregates the means of the groups."""

    def aggregate(self, updates: Vector, weights: Floats) -> Vector:
        raise ValueError("BASGD must know the sender of each update: call `step(None, buffer, weights)`")

    def step(self, state: Any, buffer: Buffer, weights: Floats) -> tuple[Aggregate, Any]:
        rows = present(buffer.deltas, weights)
        groups, group_of = np.unique(buffer.clients[rows] % self.buffers, return_inverse=True)
        if not len(groups):
            return Aggregate(np.zeros(buffer.deltas.shape[1], dtype=np.float32), weights.copy()), state
        composition = np.zeros((len(groups), len(weights)))
        composition[group_of, rows] = weights[rows]
        masses = composition.sum(axis=1)
        composition /= masses[:, None]
        means = composition.astype(np.float32) @ buffer.deltas
        rule, weighed = self.rule, self.rule.weigh(means, masses)
        notes = tuple(f"basgd, means of groups: {note}" for note in rule.lowered(len(groups)))
        return Aggregate(rule.aggregate(means, masses), weighed @ composition, notes), state

    def faults(self, collected: int) -> Iterator[Fault]:
        yield from (fault.under("rule") for fault in self.rule.faults(min(self.buffers, collected)))

    def notes(self, collected: int) -> list[str]:
        return [f"rule: {note}" for note in self.rule.notes(min(self.buffers, collected))]
