"""Workload of a benchmark process, read from the folder that `compare.py` wrote. Imported in the environments of all
simulators: needs NumPy and torch alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

Batch = tuple[torch.Tensor, torch.Tensor]
Turn = Callable[[], None]
"""Call it at the end of each round: it reports the round's CPU time and waits until the next round may begin."""


@dataclass(frozen=True)
class Work:
    """Federated training of one model on equal numbers of samples of each client, without evaluation."""

    folder: Path
    name: str
    clients: int
    cohort: int
    """Clients of a round; of an asynchronous workload updates per version."""
    samples: int
    lr: float
    batch_size: int
    proximal_mu: float
    in_flight: int
    """Tasks that are trained at the same time; 0: synchronous rounds."""
    rounds: int
    scenario: dict[str, Any]
    """The same workload as a scenario of asyncfl."""

    @classmethod
    def read(cls, folder: Path) -> Work:
        return cls(folder=folder, **json.loads((folder / "work.json").read_text(encoding="utf-8")))

    def module(self) -> torch.nn.Module:
        """Return a new module with the initial weights."""
        module: torch.nn.Module = torch.load(self.folder / "module.pt", weights_only=False)
        return module

    @cached_property
    def arrays(self) -> dict[str, torch.Tensor]:
        """`features` (clients, samples, ...), `labels` (clients, samples), `test_features` and `test_labels`."""
        with np.load(self.folder / "data.npz") as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}

    def client(self, client: int) -> Batch:
        """Return the features and labels of a client."""
        return self.arrays["features"][client], self.arrays["labels"][client]

    def batches(self, client: int) -> list[Batch]:
        """Return a client's samples cut into batches, in their order."""
        features, labels = self.client(client)
        return list(zip(features.split(self.batch_size), labels.split(self.batch_size), strict=True))

    def train(self, module: torch.nn.Module, batches: list[Batch]) -> None:
        """Train `module` for an epoch by SGD, with FedProx's proximal term where the workload has one: the loop that a
        user writes for simulators that leave training to him."""
        optimiser = torch.optim.SGD(module.parameters(), self.lr)
        start = [weights.detach().clone() for weights in module.parameters()]
        for features, labels in batches:
            loss = torch.nn.functional.cross_entropy(module(features), labels)
            if self.proximal_mu:
                distance = sum(((w - w0) ** 2).sum() for w, w0 in zip(module.parameters(), start, strict=True))
                loss = loss + self.proximal_mu / 2 * distance
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def test_loss(self, module: torch.nn.Module) -> float:
        """Return the mean loss of `module` on the test samples."""
        with torch.inference_mode():
            logits = module(self.arrays["test_features"])
            return float(torch.nn.functional.cross_entropy(logits, self.arrays["test_labels"]))
