"""What does an audit cost beside the run that it audits?

    python benchmarks/audit.py [--clients 5] [--twins 200] [--canaries 1000]

The run is that of NbAFL's figure 2 (50 clients of 100 samples, 25 versions, epsilon 60). It is audited with twins,
during the run and afterwards, and with canaries; each audit makes the run again. Prints CPU and wall seconds of one
thread.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

FIGURE_2: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 50, "samples_per_client": 100},
    "model": {"kind": "mlp", "hidden": [256]},
    "training": {"lr": 0.002, "momentum": 0.9, "batch_size": 20, "epochs": 5, "proximal_mu": 1.0},
    "protocol": {"kind": "sync", "rounds": 25},
    "world": {"tap": {"uplink": True}},
    "privacy": {"kind": "nbafl", "epsilon": 60, "delta": 0.01, "exposures": 1, "clip_norm": "median", "constant": 1.25},
}


def timed(name: str, work: Callable[[], object]) -> None:
    """Print the time that `work` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(f"{name:26}{time.process_time() - cpu:8.1f} s of CPU{time.perf_counter() - wall:8.1f} s", flush=True)


def main() -> None:
    """Run and audit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=5, help="clients that are audited with twins")
    parser.add_argument("--twins", type=int, default=200)
    parser.add_argument("--canaries", type=int, default=1000)
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    from asyncfl.api import execute
    from asyncfl.data.canaries import Canaries
    from asyncfl.extras.audit.canaries import audit_canaries
    from asyncfl.extras.audit.finished_run import FinishedRun
    from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours, save_run
    from asyncfl.measurements import TwinAudit
    from asyncfl.scenario import Scenario

    scenario = Scenario.read(FIGURE_2)
    audit = {"clients": chosen.clients, "twins": chosen.twins}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"

        def with_twins() -> None:
            finished = FinishedRun.load(run)
            save_run(finished, audit_neighbours(finished, TwinAudit.model_validate(audit), finished.seeds()))

        def with_canaries() -> None:
            audit_canaries(FinishedRun.load(run), Canaries(count=chosen.canaries), (0,), 1e-5)

        timed("run", lambda: execute(scenario, run))
        timed("twins, afterwards", with_twins)
        inside = scenario.override({"evaluation.audit": audit})
        timed("run with evaluation.audit", lambda: execute(inside, Path(folder) / "inside"))
        timed("canaries, afterwards", with_canaries)


if __name__ == "__main__":
    main()
