"""How do time and memory of a run grow with clients, with parameters, and with workers?

    python benchmarks/peers/scaling.py [--over clients parameters workers] [--workers 0 1 2 4]

Each line is a process of its own on one core: CPU ms per trained update without preparation, CPU seconds of the
preparation, and the largest memory of the process. Over clients the number of updates stays the same: 2,000 updates in
buffers of 10, 50 tasks in flight, 4 samples a client. Over parameters an MLP gets wider: 20 clients of 100 samples in
batches of 20, 5 rounds.

Over workers a run is timed by the wall, from its call to its tables, the start of the workers included: synchronous
LeNet and MLP, 20 clients of 600 samples. Runs with each number of workers alternate; medians of `--repeats`. Only a
machine that does nothing else shows how much faster they are.
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
from typing import Any

CLIENTS = (100, 1_000, 10_000, 100_000)
HIDDEN: tuple[tuple[int, ...], ...] = ((), (64,), (256,), (1024,), (4096,), (4096, 2048))
MODELS = {"mlp": 100, "lenet": 10}
"""Rounds of each model over workers."""
TITLES = {"clients": "clients", "parameters": "hidden units", "workers": "workers"}


def scenario(over: str, value: Any) -> dict[str, Any]:
    """Return the scenario of a line."""
    common = {
        "training": {"lr": 0.01, "batch_size": 20, "device": "cpu"},
        "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}},
        "evaluation": {"train_every": 0, "test_every": 1000},
    }
    data = {"dataset": "mnist", "source": "embedded", "test_samples": 100}
    if over == "clients":
        dispatch = {"kind": "constant", "in_flight": 50}
        protocol = {"kind": "buffered", "rounds": 200, "buffer": 10, "dispatch": dispatch}
        data |= {"clients": value, "samples_per_client": 4}
        return {**common, "data": data, "model": {"kind": "mlp"}, "protocol": protocol}
    data |= {"clients": 20, "samples_per_client": 100}
    model = {"kind": "mlp", "hidden": value}
    return {**common, "data": data, "model": model, "protocol": {"kind": "sync", "rounds": 5}}


def with_workers(model: str, workers: int) -> None:
    """Print the wall seconds of a run as JSON."""
    from asyncfl import Scenario, simulate

    described = scenario("parameters", ())
    described["data"] |= {"samples_per_client": 600}
    described |= {"model": {"kind": model}, "protocol": {"kind": "sync", "rounds": MODELS[model]}}
    read = Scenario.read(described)
    began = time.perf_counter()
    simulate(read, workers=workers)
    print(json.dumps({"wall_s": time.perf_counter() - began}))


def print_workers(numbers: list[int], repeats: int, environment: dict[str, str]) -> None:
    """Print the table over workers."""
    print("| model | workers | seconds | times as fast |")
    print("|---|---:|---:|---:|")
    for model in MODELS:
        found: dict[int, list[float]] = {number: [] for number in numbers}
        for _ in range(repeats):
            for number, results in found.items():
                words = (sys.executable, __file__, "--line", "workers", json.dumps([model, number]))
                done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                results.append(json.loads(done.stdout)["wall_s"])
        for number, results in found.items():
            gain = statistics.median(a / b for a, b in zip(found[numbers[0]], results, strict=True))
            print(f"| {model} | {number} | {statistics.median(results):.1f} | {gain:.2f} |", flush=True)


def line(over: str, value: Any) -> None:
    """Print the costs of one run as JSON."""
    if over == "workers":
        with_workers(*value)
        return
    # The simulator times its parts by the wall; here they are to be told in CPU seconds.
    time.perf_counter = time.process_time
    from asyncfl import Scenario
    from asyncfl.results.run_tables import clients_table, rounds_table
    from asyncfl.simulation import simulate_seed

    described = Scenario.read(scenario(over, value))
    began = time.process_time()
    run = simulate_seed(described, 0)
    rounds_table(run), clients_table(run)
    preparation = run.seconds["preparation"]
    spent = time.process_time() - began - preparation
    result = {
        "parameters": described.n_parameters,
        "ms": 1e3 * spent / run.trained,
        "preparation_s": preparation,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--over", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2, 4], help="numbers of workers, least first")
    parser.add_argument("--repeats", type=int, default=3, help="runs with each number of workers")
    parser.add_argument("--line", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.line:
        line(chosen.line[0], json.loads(chosen.line[1]))
        return
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")}
    if "workers" in chosen.over:
        print_workers(chosen.workers, chosen.repeats, environment)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for over in chosen.over:
        if over == "workers":
            continue
        print(f"| {TITLES[over]} | parameters | CPU ms per update | preparation, CPU s | memory, MB |")
        print("|---:|---:|---:|---:|---:|")
        for value in CLIENTS if over == "clients" else HIDDEN:
            words = (sys.executable, __file__, "--line", over, json.dumps(value))
            done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            shown = f"{value:,}" if isinstance(value, int) else ", ".join(map(str, value)) or "none"
            print(
                f"| {shown} | {found['parameters']:,} | {found['ms']:.2f} | {found['preparation_s']:.1f} "
                f"| {found['mb']:,.0f} |",
                flush=True,
            )
        print()


if __name__ == "__main__":
    main()
