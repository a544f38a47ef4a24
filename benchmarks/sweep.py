"""What `asyncfl sweep` costs beside the runs that it is made of.

    python benchmarks/sweep.py [--runs 20] [--rounds 40] [--repeats 3]

A sweep of so many runs is made one after another in this process. Counted is the CPU time of the whole command, from
reading the scenario to the last line of the table, and that of its runs alone, each with its folder written, as
`asyncfl run` does it. Both are of one process at the same time, so what else the machine does blurs them alike; the
overhead of `repeats` sweeps is told one by one, and the least, as other processes only ever add to it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from asyncfl.cli import app
from asyncfl.experiment import sweep


def scenario(rounds: int) -> dict[str, Any]:
    """A federation of 20 clients that trains for a second or two."""
    return {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 20, "samples_per_client": 100},
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"lr": 0.05, "batch_size": 20},
        "protocol": {"kind": "sync", "rounds": rounds},
        "privacy": {"kind": "nbafl", "epsilon": 100, "clip_norm": 5.0},
    }


def swept(folder: Path, runs: int, rounds: int) -> tuple[float, float]:
    """CPU seconds of a sweep, and of its runs alone."""
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario(rounds)))
    rates = ",".join(f"{0.01 * (1 + number):.2f}" for number in range(runs))
    alone: list[float] = []
    run = sweep._run

    def timed(*work: Any) -> Any:
        began = time.process_time()
        done = run(*work)
        alone.append(time.process_time() - began)
        return done

    sweep._run = timed
    try:
        began = time.process_time()
        asked = ["sweep", str(path), "--set", f"training.lr={rates}", "--out", str(folder / "runs"), "--jobs", "1"]
        result = CliRunner().invoke(app, asked)
        whole = time.process_time() - began
    finally:
        sweep._run = run
    if result.exit_code or len(alone) != runs:
        raise SystemExit(f"{len(alone)} of {runs} runs were made: {result.exception or result.output}")
    return whole, sum(alone)


def main() -> None:
    """Print what each sweep cost."""
    parser = argparse.ArgumentParser(description="What asyncfl sweep costs beside its runs")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40, help="versions of each run")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "first").mkdir()
        swept(Path(place) / "first", 2, 2)  # imports, data, what is found once
        shares = []
        for number in range(options.repeats):
            folder = Path(place) / str(number)
            folder.mkdir()
            whole, alone = swept(folder, options.runs, options.rounds)
            shares.append(whole / alone - 1)
            print(
                f"{options.runs} runs {alone:.2f} s, beside them {whole - alone:.3f} s: {100 * shares[-1]:.2f} %",
                flush=True,
            )
    print(f"least overhead {100 * min(shares):.2f} %")


if __name__ == "__main__":
    main()
