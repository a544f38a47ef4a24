"""Models that a seed stores: the newest, the best, or one of every n versions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from asyncfl.base.messages import Vector
from asyncfl.evaluation import Evaluation, KeepEvery


class KeptModels:
    """The models stored so far. A model that is not finite is never stored."""

    def __init__(self, evaluation: Evaluation, rounds: int, stacked: Callable[[], Vector] | None = None) -> None:
        """`rounds`: the last possible version. `stacked`: returns the personal layers of all clients, (clients,
        n_personal); None without personal layers."""
        self._stacked = stacked
        self._keep, self._rounds = evaluation.keep, rounds
        self._best: tuple[float, float] = -math.inf, -math.inf
        self.models: dict[int, Vector] = {}
        """Version -> its parameters."""
        self.personal: dict[int, Vector] = {}
        """Version -> (clients, n_personal) personal layers; empty without personal layers."""

    def offer(self, version: int, model: Vector, row: dict[str, Any]) -> None:
        """Store a version if `evaluation.keep` asks for it. `row`: its evaluated row of the table of rounds."""
        keep = self._keep
        if keep == "none" or row["diverged"]:
            return
        if isinstance(keep, KeepEvery):
            if version % keep.every == 0 or version == self._rounds:
                self._keep_also(version, model)
            return
        if keep == "best":
            # The loss decides between equal or missing accuracies; of equal models the first is kept.
            numbers = row["test_accuracy"], -row["test_loss"]
            if math.isnan(numbers[1]):
                return
            found = (-math.inf if math.isnan(numbers[0]) else numbers[0]), numbers[1]
            if found <= self._best:
                return
            self._best = found
        self.models, self.personal = {}, {}
        self._keep_also(version, model)

    def _keep_also(self, version: int, model: Vector) -> None:
        self.models[version] = model.copy()
        if self._stacked is not None:
            self.personal[version] = self._stacked()
