"""What published models reveal of each client where the server's noise is correlated over versions.

Version v adds g_v = sum_j w_j u_j and noise d_v (C^-1 Z)_v to a known model, with Z independent standard normal. In
units of d_v these are all steps y = D^-1 g + C^-1 Z, D = diag(d). Who is granted the versions 1..v (views are closed)
knows at most the rows of C y = C D^-1 g + Z that are known by then, and each row has noise of its own: rows compose. A
neighbouring data set of client c moves row r by at most

    sum over versions t of  C_rt (sum_{j of c in t} w_j s_j) / d_t     against 1,

reached by equal directions, since no entry of C is negative. The versions are those that its updates did enter.
"""

from __future__ import annotations

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.ledger.views import NEVER, VersionTable


def correlated_releases(
    client: Ints, version: Ints, influence: Floats, granted: Ints, versions: VersionTable, encoder: Encoder
) -> Releases:
    """Return the releases that follow from the granted versions.

    `client`, `version`, `influence`: (n,) how far each client's updates move each version's step at most, some pairs
    perhaps more than once. `granted`: (n_versions + 1,) moment from which each version is known, non-decreasing.

    Each client has one release per row that its updates enter. The first of those that are known from a version with
    an update of the client counts as the release of that update.
    """
    moving = influence > 0
    client, version, influence = client[moving], version[moving], influence[moving]
    with np.errstate(divide="ignore"):
        steps = influence / versions.server_std[version]
    starts, ends = np.searchsorted(encoder.version, version), np.searchsorted(encoder.version, version, side="right")
    lengths = ends - starts
    of = np.repeat(np.arange(len(version)), lengths)
    entries = np.arange(lengths.sum()) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    seen = granted[np.minimum(encoder.known[encoder.row[entries]], len(granted) - 1)] < NEVER
    seen &= encoder.known[encoder.row[entries]] < len(granted)
    of, entries = of[seen], entries[seen]
    n_rows = len(encoder.known)
    keys, places = np.unique(client[of] * n_rows + encoder.row[entries], return_inverse=True)
    shifts = np.bincount(places, encoder.value[entries] * steps[of], minlength=len(keys)).astype(np.float64)
    holder, known = keys // n_rows, encoder.known[keys % n_rows]
    pairs, first = np.unique(holder * len(granted) + known, return_index=True)
    counted = np.zeros(len(keys), dtype=np.int64)
    counted[first] = np.isin(pairs, client * len(granted) + version)
    # Any unit will do for a row of a version without noise, which moves no model.
    std = np.where(versions.server_std[known] > 0, versions.server_std[known], 1.0)
    ones = np.ones(len(keys), dtype=np.int64)
    claims, never = np.where(counted > 0, versions.epsilon, 0.0), np.zeros(len(keys), dtype=bool)
    return Releases(holder, granted[known], never, std, shifts * std, ones, claims, counted, np.ones(len(keys)), never)
