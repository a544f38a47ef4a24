"""Training tasks on random samples, the implementations of training, and networks with uncommon layers."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.job import Job
from asyncfl.learning.learner import Learner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import CharLstm
from asyncfl.learning.module import ModuleLearner

IMPLEMENTATIONS: dict[str, Callable[..., Learner]] = {
    "direct": lambda *a: MlpLearner(*a, "direct"),
    "gram": lambda *a: MlpLearner(*a, "gram"),
    "module": lambda *a: ModuleLearner(*a, "cpu"),
    "batched": lambda *a: BatchedLearner(*a, "cpu"),
}
"""Implementations of training: functions of (model, training, shape, outputs); the first two for MLPs only."""


def random_jobs(
    model: Architecture,
    shape: Shape,
    outputs: int,
    sizes: tuple[int, ...],
    epochs: int = 1,
    *,
    regression: bool = False,
    spread: bool = False,
) -> list[Job]:
    """Make jobs of the given sizes, each with a base model of its own; equal calls give equal jobs.

    `spread`: scale samples by 0.1 to 3, so that some gradients are short and some long.
    """
    rng = np.random.default_rng(0)
    jobs = []
    for number, m in enumerate(sizes):
        base = model.initial_parameters(shape, outputs, torch.Generator().manual_seed(number))
        texts = rng.integers(outputs, size=(m, *shape)).astype(np.float32)
        images = texts if isinstance(model, CharLstm) else rng.normal(size=(m, *shape)).astype(np.float32)
        if spread:
            images *= rng.uniform(0.1, 3, size=(m, *[1] * len(shape))).astype(np.float32)
        labels = rng.normal(size=(m, outputs)).astype(np.float32) if regression else rng.integers(outputs, size=m)
        order = np.stack([rng.permutation(m) for _ in range(epochs)])
        jobs.append(Job(base, images, labels, order, np.random.SFC64([3, number])))
    return jobs


def train(learner: Learner, *jobs: Job) -> tuple[np.ndarray, np.ndarray]:
    """Return models (jobs, n_parameters) and losses (jobs,)."""
    rows = np.full((len(jobs), learner.n_parameters), np.nan, np.float32)
    losses = learner.train(rows, jobs)
    return rows, losses


class Normed(Architecture):
    """GroupNorm behind convolutions and linear layers, with and without bias."""

    kind: str = "tests:Normed"

    def module(self, shape: Shape, classes: int) -> nn.Module:
        pixels = shape[1] * shape[2] // 4
        return nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, stride=2, padding=1, bias=False),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * pixels, 12, bias=False),
            nn.GroupNorm(2, 12),
            nn.Linear(12, classes),
        )


class Odd(Architecture):
    """A layer without a formula, and a ReLU that overwrites a layer's output."""

    kind: str = "tests:Odd"

    def module(self, shape: Shape, classes: int) -> nn.Module:
        pixels = math.prod(shape)
        return nn.Sequential(
            nn.Flatten(), nn.LayerNorm(pixels), nn.Linear(pixels, 6), nn.ReLU(inplace=True), nn.Linear(6, classes)
        )


class InPlace(Architecture):
    """Layers with formulas, but a ReLU overwrites the output of one of them."""

    kind: str = "tests:InPlace"

    def module(self, shape: Shape, classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 6), nn.ReLU(inplace=True), nn.Linear(6, classes))


class Halves(Architecture):
    """A network that calls a layer on the two halves of each image as if they were images."""

    kind: str = "tests:Halves"

    def module(self, shape: Shape, classes: int) -> nn.Module:
        half = int(np.prod(shape)) // 2
        return nn.Sequential(
            nn.Flatten(), nn.Unflatten(1, (2, half)), nn.Flatten(0, 1), nn.Linear(half, 4),
            nn.Tanh(), nn.Unflatten(0, (-1, 2)), nn.Flatten(), nn.Linear(8, classes),
        )  # fmt: skip
