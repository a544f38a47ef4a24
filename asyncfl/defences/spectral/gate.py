"""Early verdicts are provisional: what they got wrong is made good when enough clients have been seen.

With a few rows in the bank attackers may be the majority by chance. Until the gate opens, verdicts keep updates out but
strike nobody, and what was let in or kept out is remembered, in memory of one update each; when it opens, everybody is
judged again by the whole bank, and the next model is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector


@dataclass(frozen=True)
class Provisional:
    """An update whose verdict may still change."""

    client: int
    factor: float
    """Its factor in the aggregate, or the one it would have had."""
    applied: bool
    """Whether it was let in."""
    delta: Vector
    """(n_parameters,) what the client changed."""


def covers(seen: int, clients: int, coverage: float) -> bool:
    """Whether `seen` of `clients` that are not banned are enough to open the gate."""
    # The slack keeps 0.8 * 5 = 4 from failing in the last digit.
    return seen >= coverage * clients - 1e-9


def amends(entries: Iterable[Provisional], guilty: NDArray[np.bool_]) -> Vector | None:
    """What the next model must be changed by: less what the guilty contributed, plus what was kept from the innocent.

    `guilty`: (clients,). Returns (n_parameters,) float32, None where every verdict stands.
    """
    total: Vector | None = None
    for entry in entries:
        if bool(guilty[entry.client]) != entry.applied:
            continue
        change = np.float32(-entry.factor if entry.applied else entry.factor) * entry.delta
        total = change if total is None else total + change
    return total
