"""How fast is one federated round, beside a plain nn.Module loop and the least time its products can take?

    python benchmarks/training.py [--workload NAME ...] [--repeats N] [--gemm default]

A round trains every client, averages the models and evaluates the mean (the convolutional rows: training alone, as
evaluation is the same forward pass in both). Times are CPU milliseconds of this process on one thread, the best of
`repeats` rounds that alternate between ours and the plain loop; other processes on the machine blur them nevertheless,
so only the ratios of one session mean anything. The floor is the round's floating-point operations, counted for the
ordinary backward pass, at the best rate at which this process multiplies matrices. Training in the span of the samples
(`asyncfl.learning.gram`) needs fewer operations than that, so a round can lie below the floor.

The second table tells what DP-SGD costs: training alone, by the same path without clipping, with the gradient of each
example clipped, and with noise on each step as well, as multiples of the first; and the last against the plain loop
without any privacy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from plain_training import train as train_plainly

from asyncfl.learning import (
    Architecture,
    CharLstm,
    Job,
    LeNet,
    McMahanCnn,
    Mlp,
    ResNet,
    Shape,
    Training,
    make_learner,
)
from asyncfl.learning.gemm import products, resolve

Images = NDArray[np.float32]
Labels = NDArray[np.int64]
SHAPE, CLASSES = (1, 28, 28), 10


@dataclass(frozen=True)
class Workload:
    """One row of the table."""

    name: str
    model: Architecture
    training: Training
    clients: int
    samples: int
    evaluated: int
    """Images that the mean model is evaluated on after the round; 0: training alone, without the mean."""
    repeats: int = 7
    shape: Shape = SHAPE

    @property
    def operations(self) -> float:
        """Floating-point operations of a round: 2 per weight and use forward, 4 backward, no input gradient."""
        forward, first = forward_operations(self.model, self.shape)
        trained = self.clients * self.samples * self.training.epochs * (3 * forward - first)
        return trained + self.evaluated * forward


WORKLOADS = [
    Workload(
        "mlp-nbafl", Mlp(), Training(lr=0.002, batch_size=20, epochs=5, momentum=0.9, proximal_mu=1), 50, 100, 5000
    ),
    Workload("mlp-prox", Mlp(), Training(lr=0.01, batch_size=32, proximal_mu=1), 50, 100, 5000),
    Workload("mlp-full", Mlp(), Training(lr=0.01, batch_size="full", proximal_mu=1), 50, 100, 5000),
    Workload("mlp-600", Mlp(), Training(lr=0.01, batch_size=32), 20, 600, 10000),
    Workload("lenet-600", LeNet(), Training(lr=0.01, batch_size=32), 4, 600, 0, 3),
    Workload("cnn-600", McMahanCnn(), Training(lr=0.01, batch_size=32), 2, 600, 0, 2),
    Workload("lstm-128", CharLstm(), Training(lr=0.01, batch_size=32), 1, 128, 0, 9, (40,)),
    Workload("resnet-500", ResNet(), Training(lr=0.01, batch_size=32), 20, 500, 0, 2, (3, 32, 32)),
]

PRIVATE = [
    Workload("dp-mlp-600", Mlp(), Training(lr=0.01, batch_size=32), 20, 600, 0),
    Workload("dp-lenet", LeNet(), Training(lr=0.01, batch_size=32), 1, 600, 0, 3),
]
"""Rows of the second table."""


def forward_operations(model: Architecture, shape: Shape) -> tuple[float, float]:
    """Operations per image of a forward pass, and those of its first layer."""
    counts: list[float] = []

    def count(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        if isinstance(module, torch.nn.RNNBase):  # each weight is used once a step
            counts.append(2 * shape[0] * sum(p.numel() for p in module.parameters() if p.ndim == 2))
            return
        if isinstance(module, torch.nn.Embedding):
            counts.append(0)
            return
        weight = module.weight
        assert isinstance(weight, torch.Tensor)
        places = output[0].numel() / weight.shape[0]  # a convolution uses its weight at every pixel
        counts.append(2 * weight.numel() * places)

    module = model.module(shape, CLASSES)
    for part in module.modules():
        if hasattr(part, "weight") or isinstance(part, torch.nn.RNNBase):
            part.register_forward_hook(count)
    module(torch.zeros(1, *shape))
    return sum(counts), counts[0]


def jobs_of(work: Workload) -> list[Job]:
    """Random images (or texts) of the right shape: speed does not depend on what they show."""
    rng = np.random.default_rng(0)
    base = work.model.initial_parameters(work.shape, CLASSES, torch.Generator().manual_seed(0))
    images = rng.normal(size=(work.clients, work.samples, *work.shape)).astype(np.float32)
    if isinstance(work.model, CharLstm):
        images = rng.integers(CLASSES, size=images.shape).astype(np.float32)
    labels = rng.integers(CLASSES, size=(work.clients, work.samples))
    epochs = range(work.training.epochs)
    return [
        Job(base, x, y, np.stack([rng.permutation(work.samples) for _ in epochs]), np.random.SFC64(client))
        for client, (x, y) in enumerate(zip(images, labels, strict=True))
    ]


def ours(work: Workload, jobs: Sequence[Job], images: Images, labels: Labels) -> Callable[[], None]:
    """A round by the package."""
    learner = make_learner(work.model, work.training, work.shape, CLASSES)
    rows = np.empty((len(jobs), learner.n_parameters), np.float32)
    matrix, weights = torch.from_numpy(rows), torch.full((len(jobs),), 1 / len(jobs))

    def run() -> None:
        learner.train(rows, jobs)
        if len(labels):
            mean = torch.mv(matrix.T, weights).numpy()
            learner.evaluate(mean, images, labels)

    return run


def plain(work: Workload, jobs: Sequence[Job], images: Images, labels: Labels) -> Callable[[], None]:
    """A round by the plain loop."""
    module = work.model.module(work.shape, CLASSES)
    rows = np.empty((len(jobs), len(jobs[0].base)), np.float32)
    x, y = torch.from_numpy(images), torch.from_numpy(labels)

    def run() -> None:
        train_plainly(work.model, work.training, CLASSES, rows, jobs)
        if not len(labels):
            return
        mean = torch.from_numpy(rows).mean(0)
        torch.nn.utils.vector_to_parameters(mean, module.parameters())
        with torch.no_grad():
            for bx, by in zip(torch.split(x, 500), torch.split(y, 500), strict=True):
                logits = module(bx)
                (logits.argmax(1) == by).sum().item()
                torch.nn.functional.cross_entropy(logits, by, reduction="sum").item()

    return run


def cpu_ms(run: Callable[[], None]) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


SEVERAL = 5


def _several(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    for _ in range(SEVERAL):
        torch.mm(a, b, out=out)


def gemm_rate(gemm: str) -> float:
    """Best rate, operations per millisecond, of float32 products of a few fitting shapes."""
    best = 0.0
    with torch.inference_mode(), products(gemm):
        for n, k, m in ((600, 784, 256), (256, 600, 784), (512, 512, 512)):
            a, b, out = torch.randn(n, k), torch.randn(k, m), torch.empty(n, m)
            multiply = partial(_several, a, b, out)
            for _ in range(30):
                best = max(best, SEVERAL * 2 * n * k * m / cpu_ms(multiply))
    return best


def best_ms(rounds: Sequence[Callable[[], None]], repeats: int) -> list[float]:
    """CPU milliseconds of each, the best of `repeats` that alternate."""
    for run in rounds:
        run()  # buffers, kernels
    times: list[list[float]] = [[] for _ in rounds]
    for _ in range(repeats):
        for run, taken in zip(rounds, times, strict=True):
            taken.append(cpu_ms(run))
    return [min(taken) for taken in times]


def print_private(work: Workload, repeats: int | None) -> None:
    """Print a row of the second table."""
    jobs = jobs_of(work)
    nothing = np.empty((0, *work.shape), np.float32), np.empty(0, np.int64)
    settings: list[dict[str, float]] = [{}, {"example_clip": 1.0}, {"example_clip": 1.0, "example_noise": 1.0}]
    trainings = [work.training.model_copy(update=setting) for setting in settings]
    rounds = [ours(replace(work, training=training), jobs, *nothing) for training in trainings]
    free, clipped, noisy, loop = best_ms([*rounds, plain(work, jobs, *nothing)], repeats or work.repeats)
    print(
        f"{work.name:<10} {free:8.1f} {clipped / free:9.2f} {noisy / free:15.2f} {noisy / loop:20.2f}",
        flush=True,
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Speed of one federated round against a plain loop and the FLOP floor")
    parser.add_argument(
        "--workload", nargs="+", choices=[work.name for work in WORKLOADS + PRIVATE], help="default: all"
    )
    parser.add_argument("--repeats", type=int, help="rounds of each kind, of which the best counts")
    parser.add_argument("--gemm", choices=["auto", "default", "onednn", "mixed"], default="auto")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.gemm = resolve(options.gemm)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread, gemm {options.gemm}")
    fixed = {"gemm": options.gemm, "device": "cpu"}
    chosen, private = (
        [
            replace(work, training=work.training.model_copy(update=fixed))
            for work in table
            if not options.workload or work.name in options.workload
        ]
        for table in (WORKLOADS, PRIVATE)
    )
    if chosen:
        print("workload    ours ms   plain ms   plain/ours   floor ms   ours/floor   GF/s")
    for work in chosen:
        jobs = jobs_of(work)
        rng = np.random.default_rng(1)
        images = rng.normal(size=(work.evaluated, *work.shape)).astype(np.float32)
        labels = rng.integers(CLASSES, size=work.evaluated)
        rounds = [make(work, jobs, images, labels) for make in (ours, plain)]
        rate = gemm_rate(options.gemm)
        mine, loop = best_ms(rounds, options.repeats or work.repeats)
        floor = work.operations / rate
        print(
            f"{work.name:<10} {mine:8.1f} {loop:10.1f} {loop / mine:12.2f} {floor:10.1f} {mine / floor:12.2f}"
            f" {rate / 1e6:6.0f}",
            flush=True,
        )
    if private:
        print("workload    free ms   clipped   clipped, noise   noise / plain loop")
    for work in private:
        print_private(work, options.repeats)


if __name__ == "__main__":
    main()
