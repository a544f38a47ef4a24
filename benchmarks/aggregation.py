"""How fast are the aggregation rules, beside the plain numpy or torch way to the same result?

    python benchmarks/aggregation.py [--repeats N]

Times are CPU milliseconds of this process on one thread, the best of `repeats`; checks of the input included in ours.
`K x d` is updates in a buffer times parameters. Distances and sorting are the work of most rules: the rows below them
say what the rest costs.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from asyncfl.defences import (  # noqa: E402
    Bulyan,
    CentredClipping,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NearestNeighbourMixing,
    NormClipping,
    TrimmedMean,
)
from asyncfl.defences.distances import squared_distances  # noqa: E402
from asyncfl.defences.sorting import middle_mean  # noqa: E402

SIZES = [(10, 204_000), (50, 204_000), (10, 1_660_000)]


def best_ms(work: Callable[[], Any], repeats: int) -> float:
    """Least CPU time of `repeats` calls after one to warm up, in milliseconds."""
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times) * 1e3


def plain(updates: Any, rows: Any, weights: Any) -> dict[str, Callable[[], Any]]:
    """The straightforward way to what some of our rows compute; `rows`: the updates as a torch tensor."""
    import torch

    n = len(updates)
    drop = n // 5

    def torch_geometric() -> Any:
        centre = rows.mean(dim=0)
        for _ in range(10):
            pull = 1 / (rows - centre).norm(dim=1).clamp_min(1e-6)
            centre = (pull / pull.sum()) @ rows
        return centre

    return {
        "distances": lambda: torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist"),
        "trimmed middle": lambda: torch.sort(rows, dim=0).values[drop : n - drop].mean(dim=0),
        "mean": lambda: np.average(updates, axis=0, weights=weights),
        "krum": lambda: torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist").pow(2).sort().values,
        "trimmed mean": lambda: np.sort(updates, axis=0)[drop : n - drop].mean(axis=0),
        "median": lambda: np.median(updates, axis=0),
        "geometric median": torch_geometric,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    import torch

    torch.set_num_threads(1)
    rules = {
        "mean": Mean(),
        "krum": Krum(),
        "multi-krum": MultiKrum(),
        "trimmed mean": TrimmedMean(),
        "median": Median(),
        "geometric median": GeometricMedian(),
        "bulyan": Bulyan(),
        "norm clipping": NormClipping(),
        "centred clipping": CentredClipping(),
        "mixing, trimmed mean": TrimmedMean(pre=(NearestNeighbourMixing(),)),
    }
    print(f"{'K x d':>14}  {'':22}{'ours ms':>9}{'plain ms':>10}{'times':>7}")
    for n, d in SIZES:
        updates = np.random.Generator(np.random.Philox(key=0)).standard_normal((n, d), dtype=np.float32)
        weights = np.full(n, 1 / n)
        ours: dict[str, Callable[[], Any]] = {
            "distances": lambda u=updates: squared_distances(u),
            "trimmed middle": lambda u=updates: middle_mean(u, len(u) // 5),
        }
        for name, rule in rules.items():
            ours[name] = lambda r=rule, u=updates, w=weights: r.aggregate(u, w)
        naive = plain(updates, torch.from_numpy(updates), weights)
        for name, work in ours.items():
            mine = best_ms(work, repeats)
            line = f"{f'{n} x {d}':>14}  {name:22}{mine:9.1f}"
            if name in naive:
                other = best_ms(naive[name], max(1, repeats // 3))
                line += f"{other:10.1f}{other / mine:7.1f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
