"""What an audit with canaries costs, against the run it audits: CPU seconds.

    python benchmarks/canaries.py [--rounds N] [--canaries M]

The run is that of NbAFL's figure 2 (50 clients, 100 samples each, epsilon 60), on one thread of one process. The audit
simulates it with canaries, scores what was released, and bounds epsilon for each adversary; it is to take at most twice
as long as the run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from asyncfl.api import execute
from asyncfl.audit.canaries import audit_canaries
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.data.canaries import Canaries
from asyncfl.scenario import Scenario

MOST = 2.0
"""Times as long as the run that the audit may take."""


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--canaries", type=int, default=1000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    scenario = Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": 50, "samples_per_client": 100},
            "training": {"lr": 0.002, "momentum": 0.9, "batch_size": 20, "epochs": 5, "proximal_mu": 1.0},
            "protocol": {"kind": "sync", "rounds": asked.rounds},
            "world": {"tap": {"uplink": True}},
            "privacy": {"kind": "nbafl", "epsilon": 60, "delta": 0.01},
            "evaluation": {"test_every": 0},
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        execute(scenario, Path(folder) / "run")
        run_s = time.process_time() - began
        finished = FinishedRun.load(Path(folder) / "run")
        began = time.process_time()
        audit_canaries(finished, Canaries(count=asked.canaries), (0,), 1e-5)
        audit_s = time.process_time() - began
    print(
        f"run {run_s:.1f} s, audit with {asked.canaries} canaries {audit_s:.1f} s: {audit_s / run_s:.2f} times the run"
    )
    if audit_s > MOST * run_s:
        raise SystemExit(f"more than {MOST:g} times")


if __name__ == "__main__":
    main()
