"""What an audit with twins costs: figure 2 of NbAFL, 5 clients, 25 tasks each, beside the run that it audits.

    python benchmarks/audit.py [--clients 5] [--twins 200] [--folder results/audit-benchmark]

Prints CPU and wall seconds of the run, of the audit afterwards (which makes the run again), and of the run with
`evaluation.audit`, and what either keeps on disk. One thread. On one core: 6 s for the run, about 28 s for either
audit, the run included.
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
    "privacy": {"kind": "nbafl", "epsilon": 60, "delta": 0.01, "exposures": 1, "clip_norm": "median", "constant": 1.25},
}


def timed(name: str, work: Callable[[], object]) -> None:
    """Print what `work` took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(f"{name}: {time.process_time() - cpu:.1f} s of CPU, {time.perf_counter() - wall:.1f} s")


def main() -> None:
    """Run, audit, and print what both took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--twins", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    from asyncfl.api import execute
    from asyncfl.audit.finished_run import FinishedRun
    from asyncfl.audit.neighbours import audit_neighbours, save_run
    from asyncfl.evaluation import TwinAudit
    from asyncfl.scenario import Scenario

    scenario = Scenario.read(FIGURE_2)
    audit = {"clients": chosen.clients, "twins": chosen.twins}
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.folder or Path(temporary)

        def afterwards() -> None:
            finished = FinishedRun.load(root / "run")
            save_run(finished, audit_neighbours(finished, TwinAudit.model_validate(audit), finished.seeds()))

        timed("run", lambda: execute(scenario, root / "run", force=True))
        timed("audit afterwards", afterwards)
        inside = scenario.override({"evaluation.audit": audit})
        timed("run with evaluation.audit", lambda: execute(inside, root / "inside", force=True))
        size = sum(path.stat().st_size for path in (root / "run").glob("audit.parquet"))
        size += sum(path.stat().st_size for path in (root / "run").glob("disproved-*"))
        print(f"kept of the audit: {size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
