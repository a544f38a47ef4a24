"""What do whole commands cost: start-up, a small run, the clock alone, the plan of the workflow?

    python benchmarks/commands.py [--turns 3] [--updates 150000] [--million]

Each command is a process of its own, and all of them run in turn, so that other programs on the machine disturb them
alike. Printed are medians of CPU seconds (user and system, of the process and its children), of the peak resident
memory of its largest process, and of the ratio to a yardstick that ran in the same turn: `import torch` for commands
that train, plain time-outs of SimPy (`benchmarks/timeline.py`) for the clock. The share of evaluation is that of a
run's seconds after its preparation. The first line tells processor, load and date.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ASYNCFL = (sys.executable, "-c", "from asyncfl.cli import main; main()")
CLOCK = ROOT / "benchmarks/timeline.py"
LONG = "asyncfl run, 400 versions"
# Python keeps what it compiles, as it does unless it is told not to: else each process would compile all modules anew.
KEEPS_COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}


class Cost(NamedTuple):
    """What a process took."""

    cpu_s: float
    peak_mb: float


def measure(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in `folder` and return what it took. Raises RuntimeError if it fails."""
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **KEEPS_COMPILED}, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{(folder / 'output.txt').read_text()[-2000:]}")
    kib = 1e6 if sys.platform == "darwin" else 1e3
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / kib)


def commands(updates: int, million: bool) -> dict[str, tuple[str, Sequence[str]]]:
    """Return title -> title of its yardstick (empty: none) and command. They run in a folder with `scenario.yaml`."""
    timeouts = f"plain SimPy, {4 * updates:,} time-outs"
    plain = f"from timeline import plain_timeouts; plain_timeouts({4 * updates}, 10_000)"
    clock = [sys.executable, str(CLOCK), "--clients", "200000", "--in-flight", "10000", "--updates", str(updates)]
    short = (*ASYNCFL, "timeline", "scenario.yaml", "--set", "protocol.rounds=40")
    found: dict[str, tuple[str, Sequence[str]]] = {
        "import torch": ("", (sys.executable, "-c", "import torch")),
        "asyncfl --help": ("import torch", (*ASYNCFL, "--help")),
        "asyncfl timeline, 40 versions of five updates": ("import torch", short),
        "asyncfl run, scenario of init": ("import torch", (*ASYNCFL, "run", "scenario.yaml", "--force")),
        LONG: ("import torch", (*ASYNCFL, "run", "scenario.yaml", "--set", "protocol.rounds=400", "--force")),
        timeouts: ("", (sys.executable, "-c", plain)),
        f"clock, {updates:,} updates of 200,000 clients": (timeouts, clock),
        "the same with --fates": (timeouts, [*clock, "--fates"]),
    }
    if million:
        large = ["--clients", "1000000", "--in-flight", "10000", "--updates", "1000000", "--buffer", "1000"]
        found["clock, a million updates of a million clients"] = (timeouts, [sys.executable, str(CLOCK), *large])
    return found


def shares(folder: Path) -> str:
    """Return the shares of training and evaluation in the longest run of `folder`, its preparation left out."""
    seeds = [next(iter(json.loads(path.read_text()).values())) for path in folder.glob("results/runs/*/timing.json")]
    longest = max(seeds, key=lambda seed: seed["total"])
    rest = longest["total"] - longest["preparation"]
    return f"training {longest['training'] / rest:.0%}, evaluation {longest['evaluation'] / rest:.0%} of its seconds"


def main() -> None:
    """Run all commands in turn and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--updates", type=int, default=150_000)
    parser.add_argument("--million", action="store_true", help="a million updates as well, once")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    named = commands(chosen.updates, chosen.million)
    costs: dict[str, list[Cost]] = {title: [] for title in named}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure([*ASYNCFL, "init", "scenario.yaml"], folder)
        for turn in range(chosen.turns):
            for title, (_, command) in named.items():
                if turn == 0 or "million" not in title:
                    costs[title].append(measure(command, folder))
        evaluated = shares(folder)
    today, load = datetime.datetime.now(datetime.UTC).date(), os.getloadavg()[2]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}, {today}")
    print("| command | CPU s | times its yardstick | MB |\n|---|---:|---:|---:|")
    for title, (yardstick, _) in named.items():
        median = Cost(*map(statistics.median, zip(*costs[title], strict=True)))
        pairs = zip(costs[title], costs.get(yardstick, ()), strict=False)
        ratios = [one.cpu_s / other.cpu_s for one, other in pairs]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        print(f"| {title} | {median.cpu_s:.2f} | {ratio} | {median.peak_mb:.0f} |")
    print(f"{LONG}: {evaluated}")


if __name__ == "__main__":
    main()
