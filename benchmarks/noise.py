"""What does noise cost beside torch's own normals, in CPU nanoseconds per parameter?

    python benchmarks/noise.py [--repeats N]

Both draw and add one upload's noise from a generator made for it, on one thread of one process; times are the best of
`repeats`, taken in turn, so that only their ratio means anything. Torch's noise ends at 5.8 standard deviations, ours
does not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from asyncfl.base.streams import Streams
from asyncfl.privacy.noise import add_noise

SIZES = {"logistic": 7_850, "mlp": 50_890, "mlp-256": 203_530, "cnn": 1_663_370}


def main() -> None:
    """Print a row for each size of model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    streams = Streams(0)
    print(f"{'model':10}{'parameters':>12}{'torch':>9}{'gaussian':>10}{'ratio':>7}{'laplace':>9}{'ratio':>7}")
    for name, size in SIZES.items():
        vector = np.zeros(size, np.float32)
        tasks = max(1, 200_000 // size)

        def by_torch(vector: np.ndarray = vector, tasks: int = tasks) -> None:
            for task in range(tasks):
                noise = torch.empty(len(vector)).normal_(generator=torch.Generator().manual_seed(task))
                torch.from_numpy(vector).add_(noise, alpha=0.5)

        def gaussian(vector: np.ndarray = vector, tasks: int = tasks) -> None:
            for task in range(tasks):
                add_noise("gaussian", vector, 0.5, streams, "client_noise", 0, task)

        def laplace(vector: np.ndarray = vector, tasks: int = tasks) -> None:
            for task in range(tasks):
                add_noise("laplace", vector, 0.5, streams, "client_noise", 0, task)

        theirs, normal, other = (ns / (tasks * size) for ns in best(repeats, by_torch, gaussian, laplace))
        ratios = f"{theirs:9.2f}{normal:10.2f}{normal / theirs:7.2f}{other:9.2f}{other / theirs:7.2f}"
        print(f"{name:10}{size:12}{ratios}")


def best(repeats: int, *works: Callable[[], None]) -> list[float]:
    """Least CPU nanoseconds of each of `works`, taken in turn."""
    least = [float("inf")] * len(works)
    for _ in range(repeats):
        for place, work in enumerate(works):
            began = time.process_time_ns()
            work()
            least[place] = min(least[place], time.process_time_ns() - began)
    return least


if __name__ == "__main__":
    main()
