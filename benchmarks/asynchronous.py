"""What does an update cost in the whole simulator, synchronous or buffered, and what of it is the clock?

    python benchmarks/asynchronous.py [--versions 20] [--repeats 3]

Both train the MLP 784-256-10 on 20 clients of 600 samples (batch 32, one epoch): synchronous rounds of all 20, and a
buffer of 10 with 20 tasks in flight, one after the other in one process; of each the best of `--repeats` counts. CPU
seconds of the process are told, so that other jobs on the machine matter less. `clock and recording` is everything but
training, evaluation and preparation: SimPy, the server, aggregation, events and tables.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

COMMON = {
    "data": {"dataset": "mnist", "clients": 20, "samples_per_client": 600, "source": "embedded", "test_samples": 1000},
    "model": {"kind": "mlp", "hidden": [256]},
    "training": {"lr": 0.01, "batch_size": 32, "device": "cpu"},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 10e6},
        "downlink": {"latency_s": 0.05, "bandwidth_bps": 50e6},
        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.001},
    },
    "evaluation": {"train_every": 0, "test_every": 10},
    "seeds": 1,
}


def protocols(versions: int) -> dict[str, dict[str, Any]]:
    """Name -> a protocol that aggregates 20 x `versions` updates."""
    dispatch = {"kind": "constant", "in_flight": 20}
    return {
        "synchronous": {"kind": "sync", "rounds": versions},
        "asynchronous": {"kind": "buffered", "rounds": 2 * versions, "buffer": 10, "dispatch": dispatch},
    }


def main() -> None:
    """Run both in turn and print their costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    # The simulator times its parts by the wall; here they are to be told in CPU seconds.
    time.perf_counter = time.process_time
    from asyncfl.results.run_tables import clients_table, rounds_table
    from asyncfl.scenario import Scenario
    from asyncfl.simulation import simulate_seed

    cost: dict[str, float] = {}
    print(f"{'':14}{'updates':>9}{'ms/update':>11}{'training':>10}{'evaluation':>12}{'clock and recording':>21}")
    for name, protocol in protocols(chosen.versions).items():
        scenario = Scenario.read({**COMMON, "protocol": protocol})
        best: tuple[float, ...] | None = None
        for _ in range(chosen.repeats):
            began = time.process_time()
            run = simulate_seed(scenario, 0)
            rounds_table(run), clients_table(run)
            total = time.process_time() - began - run.seconds["preparation"]
            parts = (run.seconds["training"], run.seconds["evaluation"])
            found = (total, *parts, total - sum(parts), float(run.trained))
            best = found if best is None or found < best else best
        assert best is not None
        total, training, evaluation, rest, trained = best
        cost[name] = 1e3 * total / trained
        shares = f"{training / total:10.1%}{evaluation / total:12.1%}{rest / total:21.1%}"
        print(f"{name:14}{trained:9.0f}{cost[name]:11.2f}{shares}")
    print(f"asynchronous costs {cost['asynchronous'] / cost['synchronous']:.3f} times as much per trained update")


if __name__ == "__main__":
    main()
