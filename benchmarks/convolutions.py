"""What do compiled kernels for convolutions behind pooling bring?

    python benchmarks/convolutions.py [--repeats N] [--images N]

The first table is a whole step of training (a batch of 32 images, forward, backward, update), the second the block of a
convolution, its bias, 2x2 max-pooling and ReLU alone, forward and backward. Times are CPU milliseconds of this process
on one thread. All kernels run in turn, so that other programs disturb them alike: medians, and quartiles of the ratios
of times side by side. GF/s are the operations of the ordinary dense passes in that time, which those kernels do not
need that leave out zeros; the best rate of matrix products stands beside them. The last column is how far the updates
of an epoch are from torch's, relative to their length.

Images are MNIST's, if they can be had, and the model has trained for some epochs: the more outputs a ReLU stops, the
less there is to do.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping
from statistics import median, quantiles

import numpy as np
import torch
from torch import nn
from training import forward_operations, gemm_rate

from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.learning import Architecture, Job, LeNet, McMahanCnn, SmallCnn, Training, make_learner
from asyncfl.learning.kernels import TORCH, VARIABLE, available
from asyncfl.learning.pooled_convolution import with_compiled_blocks

SHAPE, CLASSES, BATCH, WARM_UP = (1, 28, 28), 10, 32, 4
MODELS: dict[str, Architecture] = {"LeNet": LeNet(), "McMahan's CNN": McMahanCnn(), "SmallCnn": SmallCnn()}
BLOCKS = {"LeNet": ((1, 28, 16), (16, 14, 32)), "McMahan's CNN": ((1, 28, 32), (32, 14, 64))}
"""Channels, side of the images and filters of each block, with kernels of 5x5."""


def in_turn(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """CPU milliseconds of each call, repeated in turn after a first time that does not count."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            found[name] += [1e3 * (time.process_time() - start)] if number else []
    return found


def ratio(times: Mapping[str, list[float]], name: str) -> str:
    """Median of torch's times over those of `name`, side by side, and its quartiles."""
    each = [torch_ms / own for torch_ms, own in zip(times[TORCH], times[name], strict=True)]
    low, _, high = quantiles(each, n=4) if len(each) > 1 else each * 3
    return f"{median(each):.2f} ({low:.2f} to {high:.2f})"


def print_step(title: str, model: Architecture, images: int, repeats: int) -> None:
    """Print the rows of a network's step."""
    data = DataSpec(dataset="mnist", clients=1, samples_per_client=images, test_samples=10).build(Streams(0))
    x, y = data.client(0)
    order = np.random.default_rng(0).permutation(images)[None]
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    learners, rows = {}, {}
    for name in available():
        os.environ[VARIABLE] = name
        learners[name] = make_learner(model, Training(lr=0.05, batch_size=BATCH, device="cpu"), SHAPE, CLASSES)
        rows[name] = np.empty((1, learners[name].n_parameters), np.float32)
    for _ in range(WARM_UP):
        learners[TORCH].train(rows[TORCH], [Job(base, x, y, order)])
        base = rows[TORCH][0].copy()
    job, steps = Job(base, x, y, order), -(-images // BATCH)
    times = in_turn({name: lambda n=name: learners[n].train(rows[n], [job]) for name in learners}, repeats)
    forward, first = forward_operations(model, SHAPE)
    operations = images * (3 * forward - first)
    for name in learners:
        update, ours = rows[TORCH][0] - base, rows[name][0] - base
        ms = median(times[name])
        print(
            f"{title:<14} {name:<7} {ms / steps:6.2f} {ratio(times, name):>22} {operations / ms / 1e6:6.0f}"
            f" {np.linalg.norm(ours - update) / np.linalg.norm(update):10.1e}",
            flush=True,
        )


def passes(block: nn.Module, x: torch.Tensor, slope: torch.Tensor) -> Iterable[Callable[[], object]]:
    """Return a forward pass, and one with the backward pass behind it."""
    wanted = [one for one in (x, *block.parameters()) if one.requires_grad]

    def forward() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = block(x)
            return found

    return forward, lambda: torch.autograd.grad(block(x), wanted, slope)


def print_block(title: str, channels: int, side: int, filters: int, repeats: int) -> None:
    """Print the rows of a block."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(channels, filters, 5, padding=2), nn.MaxPool2d(2), nn.ReLU())
    plain = plain.to(memory_format=torch.channels_last)
    x = torch.randn(BATCH, channels, side, side).relu_().contiguous(memory_format=torch.channels_last)
    x.requires_grad_(channels > 1)  # the first convolution of a network needs no gradient of images
    slope = torch.randn_like(plain(x))
    blocks = {name: tuple(passes(with_compiled_blocks(plain, name), x, slope)) for name in available()}
    several = range(20)
    forward, both = (
        in_turn({name: lambda c=calls[part]: [c() for _ in several] for name, calls in blocks.items()}, repeats)
        for part in (0, 1)
    )
    operations = 2 * BATCH * side**2 * filters * 25 * channels
    for name in blocks:
        ms = median(forward[name]) / len(several)
        whole = median(both[name]) / len(several)
        print(
            f"{title:<14} {channels:>3} -> {filters:<3} {name:<7} {ms:8.2f} {operations / ms / 1e6:5.0f}"
            f" {whole:17.2f} {ratio(both, name):>22}",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Steps with compiled kernels beside those of torch")
    parser.add_argument("--repeats", type=int, default=9, help="times that each kind runs, in turn")
    parser.add_argument("--images", type=int, default=640, help="images of an epoch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, matrix products {gemm_rate('default') / 1e6:.0f} GF/s")
    print("step           kernels     ms       torch over this   GF/s  difference")
    for title, model in MODELS.items():
        print_step(title, model, options.images, options.repeats)
    print("block                     kernels  forward  GF/s  forward, backward        torch over this")
    for title, blocks in BLOCKS.items():
        for block in blocks:
            print_block(title, *block, options.repeats)


if __name__ == "__main__":
    main()
