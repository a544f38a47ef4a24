"""ModelRecords that a seed keeps: the newest, the best, or one of every so many versions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from asyncfl.evaluation import Evaluation, KeepEvery
from asyncfl.messages import Vector


class KeptModels:
    """The models to be kept so far. One that is not finite is never kept."""

    def __init__(self, evaluation: Evaluation, rounds: int, stacked: Callable[[], Vector] | None = None) -> None:
        """`rounds`: the last version that there can be. `stacked`: what of a model is each client's own at the moment,
        (clients, n_personal); None: nothing."""
        self._stacked = stacked
        self._keep, self._rounds = evaluation.keep, rounds
        self._best: tuple[float, float] = -math.inf, -math.inf
        self.models: dict[int, Vector] = {}
        """Version -> its parameters."""
        self.personal: dict[int, Vector] = {}
        """Version -> (clients, n_personal) what of it is each client's own; empty: nothing is."""

    def offer(self, version: int, model: Vector, row: dict[str, Any]) -> None:
        """Keep a version where it is to be kept. `row`: of the table of rounds, with what evaluation found."""
        keep = self._keep
        if keep == "none" or row["diverged"]:
            return
        if isinstance(keep, KeepEvery):
            if version % keep.every == 0 or version == self._rounds:
                self._keep_also(version, model)
            return
        if keep == "best":
            # Where accuracies are equal, or there are none, the loss decides; of equal models the first is kept.
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
