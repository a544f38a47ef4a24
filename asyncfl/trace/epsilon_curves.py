"""Epsilon spent so far by the client that an adversary knows most of, out of a run's table of spending.

The table has a row at each published version; what was learnt between two of them shows at the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace.tasks import Floats


@dataclass(frozen=True)
class EpsilonCurve:
    """What one adversary has learnt of the client that it knows most of. Never falls."""

    seed: int
    adversary: str
    time_s: Floats
    """(n,) when it rose; first of all the initial model's."""
    epsilon: Floats
    """(n,) exact epsilon from then on, for the delta of the ledger."""


def epsilon_curves(table: pa.Table) -> tuple[list[EpsilonCurve], list[str]]:
    """The spending of each seed and adversary, and a sentence for each that is unbounded."""
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
