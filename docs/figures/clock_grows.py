"""Draw docs/figures/clock_grows.png: what the clock costs over the number of clients, and over the number of updates.

    python docs/figures/clock_grows.py

Runs benchmarks/timeline.py three times for each point, and takes the median CPU seconds and the greatest memory.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt

from asyncfl.results.figure_style import OKABE_ITO, RC

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "timeline.py"
CLIENTS = (1_000, 10_000, 100_000, 1_000_000)
UPDATES = (10_000, 20_000, 40_000, 80_000)


def cost(clients: int, updates: int) -> tuple[float, float]:
    """CPU seconds with the tables, and peak memory in MB, of a timeline with 500 tasks in flight."""
    seconds, memory = [], []
    for _ in range(3):
        options = ["--clients", str(clients), "--updates", str(updates), "--in-flight", "500"]
        said = subprocess.run([sys.executable, BENCHMARK, *options], capture_output=True, text=True, check=True).stdout
        seconds.append(float(re.findall(r"summed up +([\d.]+) CPU s", said)[0]))
        memory.append(float(re.findall(r"peak memory +(\d+)", said)[0]))
    return statistics.median(seconds), max(memory)


def main() -> None:
    """Measure, print and draw."""
    over_clients = [cost(one, 20_000) for one in CLIENTS]
    over_updates = [cost(100_000, one) for one in UPDATES]
    for counts, found in ((CLIENTS, over_clients), (UPDATES, over_updates)):
        for count, (seconds, memory) in zip(counts, found, strict=True):
            print(f"{count:9,} {seconds:7.1f} CPU s {memory:6.0f} MB")
    with plt.rc_context(RC):
        canvas, axes = plt.subplots(1, 2, figsize=(7.2, 2.6), sharey=True)
        panels = (
            (axes[0], CLIENTS, over_clients, "clients (20,000 updates)"),
            (axes[1], UPDATES, over_updates, "updates (100,000 clients)"),
        )
        for axis, counts, found, label in panels:
            axis.plot(counts, [seconds for seconds, _ in found], "o-", color=OKABE_ITO[0])
            axis.set_xscale("log" if counts is CLIENTS else "linear")
            ticks = counts if counts is CLIENTS else counts[1:]
            axis.set_xticks(ticks, [f"{count:,}" for count in ticks])
            axis.minorticks_off()
            axis.set_xlabel(label)
        axes[0].set_ylim(0, 1.1 * max(seconds for seconds, _ in over_clients + over_updates))
        axes[0].set_ylabel("CPU s")
        canvas.suptitle("The clock costs what happens, not who takes part")
        canvas.tight_layout()
        canvas.savefig(Path(__file__).with_suffix(".png"), bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
