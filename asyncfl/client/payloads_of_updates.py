"""Payloads of updates: vectors of the algorithm that are computed from each update as it is sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asyncfl.algorithms.algorithm import Payload, sent
from asyncfl.client.batch import Batch, PathComponents, Stage


class PayloadsOfUpdates(Stage):
    """Stage that computes the payloads `of_update` after noise and attacks."""

    def __init__(self, facts: PathComponents, payloads: Sequence[Payload]) -> None:
        super().__init__(facts)
        self._payloads = payloads

    def run(self, batch: Batch) -> None:
        facts, algorithm = self.facts, self.facts.algorithm
        made = []
        for row, one in zip(batch.rows, batch.assignments, strict=True):
            steps = facts.training.steps_of(facts.data.samples(one.client), one.epochs)
            # An attacker may upload any numbers.
            with np.errstate(all="ignore"):
                vectors = algorithm.from_update(one.download, one.base, row.copy(), steps, facts.training.lr)
            made.append(sent(algorithm, "from_update", vectors, self._payloads))
        batch.payloads |= {one.name: np.stack([vectors[one.name] for vectors in made]) for one in self._payloads}
