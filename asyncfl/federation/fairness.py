"""How evenly a model serves the clients: what it comes to on each one's own data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.columns import FairnessColumns

COLUMNS = tuple(FairnessColumns.model_fields)
"""Names of the columns of the table of rounds."""


def fairness(losses: NDArray[np.float64], accuracies: NDArray[np.float64]) -> dict[str, float]:
    """Columns of the table of rounds, of the losses and accuracies (clients,) on the clients' own data.

    The worst decile are the tenth of the clients, rounded up, that fare worst, as in q-FFL (Li et al. 2020,
    arXiv:1905.10497, table 1). An accuracy that is not known makes those of accuracies NaN.
    """
    tenth = math.ceil(len(losses) / 10)
    numbers = (
        float(accuracies.std()),
        float(np.sort(accuracies)[:tenth].mean()),
        float(np.sort(losses)[-tenth:].mean()),
    )
    found = dict(zip(COLUMNS, numbers, strict=True))
    return {
        name: math.nan if name.startswith("client_accuracy") and np.isnan(accuracies).any() else value
        for name, value in found.items()
    }


NOT_MEASURED = dict.fromkeys(COLUMNS, math.nan)
"""The columns of a version that was not looked at."""
