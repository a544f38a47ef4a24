"""Fairness between clients: spread and worst cases of the quality of a model on each client's data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.columns import FairnessColumns

COLUMNS = tuple(FairnessColumns.model_fields)
"""Names of the columns of the table of rounds."""


def fairness(losses: NDArray[np.float64], accuracies: NDArray[np.float64]) -> dict[str, float]:
    """Compute the fairness columns of the table of rounds from losses and accuracies (clients,) on the clients' own
    data.

    The worst decile is the worst tenth of the clients, rounded up, as in q-FFL (Li et al. 2020, arXiv:1905.10497, table
    1). If an accuracy is NaN, the columns of accuracies are NaN.
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
"""Columns of a version that was not measured."""
