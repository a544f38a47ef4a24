"""Models of twins whose server noise is correlated over versions: rows with noise of their own.

An adversary with all versions up to one knows the rows of W y of their steps y in units of their noise, W from
`whitening`. The client's twin moves step t by d_t in an unknown direction, so that row r differs by at least the
largest |W_rt| d_t less all the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Floats
from asyncfl.privacy.correlation import Factorisation
from asyncfl.privacy.correlation.whitening import MOST_VERSIONS, whitening


class StepPair(NamedTuple):
    """The step of a version in both worlds."""

    distance: float  # least distance of the steps
    sensitivity: float
    std: float  # unit of the version's noise, see `ModelRelease.server_std`


class RowPair(NamedTuple):
    """A row of W y in both worlds, in units of its noise."""

    version: int  # version from which it is known
    distance: float  # least distance of the row
    sensitivity: float


def row_pairs(factorisation: Factorisation, versions: int, held: int, steps: Mapping[int, StepPair]) -> list[RowPair]:
    """Return the rows that differ and follow from versions 1..`held` of a run of `versions` versions. `steps`: version
    -> step that the client's updates moved."""
    n = min(held, MOST_VERSIONS)
    entered = sorted(version for version in steps if version <= n and steps[version].std > 0)
    if not entered:
        return []
    weights: Floats = np.abs(whitening(factorisation, versions)[:n, np.array(entered) - 1])
    distances, most = (weights * [steps[version][part] / steps[version].std for version in entered] for part in (0, 1))
    least = 2 * distances.max(axis=1) - distances.sum(axis=1)
    rows = np.flatnonzero(weights.any(axis=1)).tolist()
    return [RowPair(row + 1, max(0.0, float(least[row])), float(most[row].sum())) for row in rows]
