"""Models that a run keeps: which versions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from asyncfl.base.arrays import Vector
from asyncfl.measurements import Evaluation, KeepEvery


class KeptModels:
    """The models of one seed that are kept so far. A model that is not finite is never kept."""

    def __init__(self, evaluation: Evaluation, rounds: int) -> None:
        """`rounds`: the last possible version."""
        self._keep, self._rounds = evaluation.keep, rounds
        self._best: tuple[float, float] = -math.inf, -math.inf
        self.models: dict[int, Vector] = {}
        self.personal: dict[int, Vector] = {}
        """Version -> (clients, n_personal) personal layers; empty without personal layers."""

    def offer(
        self, version: int, model: Vector, row: dict[str, Any], stacked: Callable[[], Vector] | None = None
    ) -> None:
        """Keep a version if `evaluation.keep` asks for it. `row`: its evaluated row of the table of rounds. `stacked`:
        returns the personal layers of all clients, (clients, n_personal); None without personal layers."""
        keep = self._keep
        if keep == "none" or row["diverged"]:
            return
        if isinstance(keep, KeepEvery):
            if version % keep.every and version != self._rounds:
                return
        else:
            if keep == "best":
                # The loss decides between equal or missing accuracies; of equal models the first is kept.
                accuracy, loss = row["test_accuracy"], row["test_loss"]
                found = (-math.inf if math.isnan(accuracy) else accuracy), -loss
                if math.isnan(loss) or found <= self._best:
                    return
                self._best = found
            self.models, self.personal = {}, {}
        self.models[version] = model.copy()
        if stacked is not None:
            self.personal[version] = stacked()
