"""Curves of the epsilon spent over time, from a run's table `spending`: for each adversary, the largest of all clients.

The table has a row per published version, so releases between two versions show at the second one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace.tasks import Floats


@dataclass(frozen=True)
class EpsilonCurve:
    """Largest epsilon of a client towards one adversary over time. It never falls."""

    seed: int
    adversary: str
    time_s: Floats
    """(n,) times at which epsilon rose, starting with the publication of the initial model."""
    epsilon: Floats
    """(n,) exact epsilon from these times on, for the delta of the ledger."""


def epsilon_curves(table: pa.Table) -> tuple[list[EpsilonCurve], list[str]]:
    """Return the epsilon curve of each seed and adversary, and a sentence for each whose epsilon is unbounded.

    table: table `spending` of a run.
    """
    found, missing = [], []
    largest = table.filter(pc.equal(table["holder"], "largest"))
    if not len(largest):
        return [], ["the run has no rows of clients"]
    pairs = largest.group_by(["seed", "adversary"]).aggregate([]).to_pylist()
    for pair in sorted(pairs, key=lambda pair: (pair["seed"], pair["adversary"])):
        seed, adversary = pair["seed"], pair["adversary"]
        rows = largest.filter((pc.field("seed") == seed) & (pc.field("adversary") == adversary))
        times, epsilon = rows["time_s"].to_numpy(), rows["exact_epsilon"].to_numpy()
        if not np.isfinite(epsilon).all():
            missing.append(f"seed {seed}, {adversary}: unbounded, uploads carry no noise that hides anything")
            continue
        rises = np.append(True, np.diff(epsilon) > 0)
        found.append(EpsilonCurve(seed, adversary, times[rises], epsilon[rises]))
    return found, missing
