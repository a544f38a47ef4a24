"""Check that a staleness function keeps the laws of `asyncfl.server.staleness`."""

from __future__ import annotations

import numpy as np

from asyncfl.server.staleness import Staleness
from asyncfl.testing.laws import check_description, require


def check_staleness(staleness: Staleness, *, oldest: int = 1000, falling: bool = True) -> None:
    """Raise AssertionError with the first law that `staleness` violates.

    The laws: it is frozen and can be written and read; a fresh update has weight 1; weights are (n_updates,) float64 in
    0..1; each weight depends only on the staleness of its update; the argument is not changed. `falling`: whether a
    staler update must not weigh more. `oldest`: largest staleness to check, versions.
    """
    check_description(staleness, Staleness)
    ages = np.arange(oldest + 1)
    ages.flags.writeable = False
    weight = staleness.weight(ages)
    require(
        isinstance(weight, np.ndarray) and weight.shape == ages.shape and weight.dtype == np.float64,
        staleness,
        f"weights of {ages.shape} updates must be {ages.shape} float64",
        f"got {getattr(weight, 'shape', type(weight).__name__)} {getattr(weight, 'dtype', '')}",
    )
    require(weight[0] == 1, staleness, "a fresh update must weigh 1", f"it weighs {weight[0]}")
    outside = np.flatnonzero(~((weight >= 0) & (weight <= 1)))
    if len(outside):
        age = int(outside[0])
        require(False, staleness, "weights must be 0..1", f"an update {age} versions old weighs {weight[age]}")
    rising = np.flatnonzero(np.diff(weight) > 0)
    if falling and len(rising):
        age = int(rising[0]) + 1
        seen = f"{weight[age - 1]} at {age - 1} versions, {weight[age]} at {age}"
        require(False, staleness, "an older update must not weigh more", seen)
    mixed = np.array([3, 0, oldest, 3, 1])
    alone = np.concatenate([staleness.weight(mixed[place : place + 1]) for place in range(len(mixed))])
    together = staleness.weight(mixed)
    equal = np.array_equal(together, alone)
    require(equal, staleness, "each weight must depend on its own age alone", f"{together}, {alone}")
    require(staleness.weight(ages[:0]).shape == (0,), staleness, "no update must give no weight")
