"""How much faster is one run with workers, and what does a task cost the process that keeps the clock?

    python benchmarks/workers.py [--workers 0 1 2 4] [--model mlp lenet cnn] [--versions N] [--repeats 3]

Each model is trained synchronously and by FedBuff on 20 clients, batch 32, one epoch. What is told is the cost of a run
less that of a run of one version, so it is free of preparation, here and in the workers; the median of `--repeats`
such pairs, which alternate over the numbers of workers. `speed` is the wall-clock time without workers over that with
them; it means something on a quiet machine with more cores than workers only. `own ms/task` is the CPU time of the
process that keeps the clock, per trained task: with workers, the overhead that no further worker takes away.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from asyncfl.scenario import Scenario
from asyncfl.simulation import TrainingWorkers, simulate_seed, started_workers

MODELS: dict[str, tuple[dict[str, Any], int, int]] = {
    "mlp": ({"kind": "mlp", "hidden": [200]}, 600, 20),
    "lenet": ({"kind": "lenet"}, 300, 6),
    "cnn": ({"kind": "cnn"}, 100, 4),
}
"""Name -> model, samples of each client, versions of a synchronous run."""
PROTOCOLS = {
    "synchronous": ({"kind": "sync"}, 1),
    "FedBuff": ({"kind": "buffered", "buffer": 10, "dispatch": {"kind": "constant", "in_flight": 20}}, 2),
}
"""Name -> protocol, versions for one of a synchronous run."""


def described(model: str, protocol: str, versions: int) -> dict[str, Any]:
    """Scenario of a cell of the table."""
    architecture, samples, _ = MODELS[model]
    kind, times = PROTOCOLS[protocol]
    return {
        "data": {
            "dataset": "mnist",
            "clients": 20,
            "samples_per_client": samples,
            "source": "embedded",
            "test_samples": 500,
        },
        "model": architecture,
        "training": {"lr": 0.01, "batch_size": 32, "device": "cpu"},
        "protocol": {**kind, "rounds": times * versions},
        "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}},
        "evaluation": {"train_every": 0, "test_every": 10, "checkpoint": None},
        "seeds": 1,
    }


def cost(scenario: Scenario, workers: TrainingWorkers | None) -> NDArray[np.float64]:
    """Tasks, wall-clock seconds and CPU seconds of this process of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    run = simulate_seed(scenario, 0, workers=workers)
    return np.array([run.trained, time.perf_counter() - wall, time.process_time() - cpu])


def main() -> None:
    """Run each cell with each number of workers in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--model", nargs="+", choices=MODELS, default=[*MODELS])
    parser.add_argument("--versions", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()

    torch.set_num_threads(1)
    numbers = sorted({0, *chosen.workers})
    print(f"{'':22}{'workers':>8}{'tasks':>7}{'wall s':>9}{'speed':>7}{'own ms/task':>13}")
    with ExitStack() as stack:
        pools = {number: stack.enter_context(started_workers(number)) for number in numbers}
        for model in chosen.model:
            for protocol in PROTOCOLS:
                versions = 1 + (chosen.versions or MODELS[model][2])
                short, long = (Scenario.read(described(model, protocol, one)) for one in (1, versions))
                found: dict[int, list[NDArray[np.float64]]] = {number: [] for number in numbers}
                for number in pools:  # starts the workers
                    cost(short, pools[number])
                for _ in range(chosen.repeats):
                    for number in numbers:
                        found[number].append(cost(long, pools[number]) - cost(short, pools[number]))
                alone = np.median([wall for _, wall, _ in found[0]])
                for number in numbers:
                    tasks, wall, cpu = np.median(found[number], axis=0)
                    costs = f"{tasks:7.0f}{wall:9.2f}{alone / wall:7.2f}{1e3 * cpu / tasks:13.2f}"
                    print(f"{model:8}{protocol:14}{number:8}{costs}", flush=True)


if __name__ == "__main__":
    main()
