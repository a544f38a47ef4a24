"""How fast is the clock alone, and what memory does it take, for far more clients than anybody would train?

    python benchmarks/timeline.py [--clients 100000] [--in-flight 1000] [--updates 200000] [--buffer 100] [--fates]

Devices of lognormal speed, lossy links with one retransmission and a tap on uploads: each task takes two transfers with
random losses and leaves some eleven events, or four with `--fates`. Prints CPU and wall seconds, their ratio to four
plain time-outs of SimPy per update in the same process, the peak of the resident memory of the whole process
(interpreter and libraries included), and events per CPU second.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from random import Random
from typing import Any

import simpy


def scenario(clients: int, in_flight: int, updates: int, buffer: int) -> dict[str, Any]:
    """The scenario as plain values."""
    loss = {"kind": "independent", "probability": 0.01}
    return {
        "data": {"dataset": "mnist", "clients": clients, "samples_per_client": 100, "source": "embedded"},
        "model": {"kind": "mlp", "hidden": [64]},
        "protocol": {
            "kind": "buffered",
            "rounds": max(1, updates // buffer),
            "buffer": buffer,
            "dispatch": {"kind": "constant", "in_flight": in_flight},
        },
        "world": {
            "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
            "downlink": {"latency_s": 0.05, "bandwidth_bps": 20e6, "loss": loss, "retransmissions": 1},
            "uplink": {"latency_s": 0.05, "bandwidth_bps": 5e6, "loss": loss, "retransmissions": 1},
            "tap": {"uplink": True},
        },
    }


def plain_timeouts(number: int, at_once: int) -> float:
    """Return the CPU seconds of so many of SimPy's time-outs, `at_once` at a time, each begun by the one before: the
    least that a model in SimPy costs, without generators."""
    environment, random, left = simpy.Environment(), Random(0), iter(range(number - at_once))

    def again(_: simpy.Event) -> None:
        if next(left, None) is not None:
            environment.timeout(random.random()).callbacks.append(again)

    cpu = time.process_time()
    for _ in range(at_once):
        environment.timeout(random.random()).callbacks.append(again)
    environment.run()
    return time.process_time() - cpu


def main() -> None:
    """Run the clock and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--in-flight", type=int, default=1_000)
    parser.add_argument("--updates", type=int, default=200_000)
    parser.add_argument("--buffer", type=int, default=100)
    parser.add_argument("--fates", action="store_true")
    chosen = parser.parse_args()

    from asyncfl.experiments.timeline import summary, timeline_of
    from asyncfl.results.run_tables import clients_table, rounds_table
    from asyncfl.scenario import Scenario
    from asyncfl.simulation import simulate_clock

    described = Scenario.read(scenario(chosen.clients, chosen.in_flight, chosen.updates, chosen.buffer))
    wall, cpu = time.perf_counter(), time.process_time()
    run = simulate_clock(described, 0, whole=not chosen.fates)
    simulated = time.process_time() - cpu
    said = summary(timeline_of(0, run.stopped, rounds_table(run), run.events, run.tasks, clients_table(run), run.fates))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    # Linux counts in KiB, macOS in bytes.
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    print(f"{chosen.clients} clients, {chosen.in_flight} in flight, {run.fates['aggregated']} updates aggregated")
    print(f"{'simulated':22}{simulated:10.1f} CPU s")
    print(f"{'and summed up':22}{cpu:10.1f} CPU s{wall:10.1f} s on the wall")
    plain = plain_timeouts(4 * chosen.updates, chosen.in_flight)
    print(f"{'plain time-outs':22}{plain:10.1f} CPU s{cpu / plain:10.1f} times as much")
    print(f"{'peak memory':22}{peak_mb:10.0f} MB")
    print(f"{'events':22}{len(run.events):10}{len(run.events) / simulated:12.0f} per CPU s")
    print(f"{'virtual time':22}{said['virtual_s']:10.0f} s")
    print(f"{'mean staleness':22}{said['staleness']['mean']:10.2f}")
    print(f"{'L':22}{said['exposure']['most_overheard_client']:10}")


if __name__ == "__main__":
    main()
