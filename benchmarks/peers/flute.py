"""FLUTE's public row: logistic regression on MNIST, 1,000 clients, 10 a round, batches of 10, SGD at 0.03, 100 rounds.

    ASYNCFL_DATA_DIR=... python benchmarks/peers/flute.py [--repeats 5] [--cores 1]

Published by FLUTE's authors (their README, for FLUTE 1.0 and Flower 1.0.0, on a machine that they do not name): FLUTE
200 s and Flower 1,814 s on CPUs, FLUTE 91 s on two GPUs, accuracy about 80 %, tested every 20 rounds. Here each
repetition is a new process, from the start of Python to the last accuracy: seconds by the wall, CPU seconds, accuracy.

Their clients hold two digits each, in sizes by a power law, 69 images on average (LEAF's MNIST); here 60 each. Their
model has a sigmoid before the softmax, ours has none.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

SCENARIO = {
    "data": {
        "dataset": "mnist",
        "clients": 1000,
        "samples_per_client": 60,
        "partition": {"kind": "shards", "shards_per_client": 2},
    },
    "model": {"kind": "linear"},
    "training": {"lr": 0.03, "batch_size": 10, "device": "cpu"},
    "protocol": {"kind": "sync", "rounds": 100, "participants": 10},
    "evaluation": {"train_every": 0, "test_every": 20},
}


def once() -> None:
    """Run it and print what it took."""
    from asyncfl import Scenario, simulate

    scenario = Scenario.read(SCENARIO)
    rounds = simulate(scenario).rounds
    used = resource.getrusage(resource.RUSAGE_SELF)
    accuracies = rounds.test_accuracy.dropna().tolist()[1:]  # without the initial model
    result = {"accuracies": accuracies, "source": scenario.data.resolve_source(), "mb": used.ru_maxrss / 1024}
    print(json.dumps({**result, "cpu_s": used.ru_utime + used.ru_stime}))


def main() -> None:
    """Print the medians of several processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, default=1, help="cores that a process may use")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.once:
        once()
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-chosen.cores :])
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(chosen.cores))}
    walls, results = [], []
    for _ in range(chosen.repeats):
        began = time.perf_counter()
        done = subprocess.run(
            (sys.executable, __file__, "--once"), env=environment, capture_output=True, text=True, check=True
        )
        walls.append(time.perf_counter() - began)
        results.append(json.loads(done.stdout))
    cpu_s = [result["cpu_s"] for result in results]
    last = results[-1]
    print(f"cores: {chosen.cores}, processes: {chosen.repeats}, data: {last['source']}")
    print(f"wall s: median {statistics.median(walls):.1f}, {min(walls):.1f} to {max(walls):.1f}")
    print(f"CPU s: median {statistics.median(cpu_s):.1f}, {min(cpu_s):.1f} to {max(cpu_s):.1f}; {last['mb']:.0f} MB")
    print(f"test accuracy: {', '.join(f'{accuracy:.3f}' for accuracy in last['accuracies'])}")


if __name__ == "__main__":
    main()
