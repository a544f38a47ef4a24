"""What is proven of the sum of the clients' noise in secure aggregation.

Clients add discrete Gaussian noise of standard deviation s on the grid. A sum of n such draws with equal weights hides
as much as one draw of standard deviation s sqrt(n), but for

    tau = 10 sum_{k=1..n-1} exp(-2 pi^2 s^2 k/(k + 1))

per number (Kairouz, Liu, Steinke 2021, on sums of discrete Gaussians). With s >= 4 that is below 1e-60, and not
counted. Sums with different weights, of draws of different size, with copies or with the server's noise are not
covered: what is proven then is that each client's own noise hides it in any sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncfl.privacy.ledger.views import UploadTable, VersionTable
from asyncfl.protocol.secure_aggregation import SecureAggregation

LEAST_STD = 4.0
"""Standard deviation in steps of the grid from which tau is negligible."""


class SumLaw(NamedTuple):
    """Law of the clients' noise, see `privacy.ledger.accounts.Account`."""

    discrete: bool
    sums_proven: bool


def sum_of_noises(secure: SecureAggregation | None, sent: UploadTable, versions: VersionTable) -> SumLaw:
    """Return what is proven of the noise that clients added to the updates of a run."""
    noisy = sent.additive & (sent.std > 0) & (sent.weight > 0) & (sent.version > 0)
    if secure is None or not noisy.any():
        return SumLaw(False, True)
    std, weight, version = sent.std[noisy], sent.weight[noisy], sent.version[noisy]
    first = np.unique(version, return_index=True, return_inverse=True)
    even = all(np.allclose(one, one[first[1]][first[2]], rtol=1e-9, atol=0) for one in (std, weight))
    wide = bool((std >= LEAST_STD * secure.quantiser.step).all())
    alone = not versions.server_std.any() and not (sent.copy_of >= 0).any()
    return SumLaw(True, even and wide and alone)
