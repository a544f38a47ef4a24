"""Quality of predicted numbers: share of variance explained, and mean absolute error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.columns import RegressionColumns

COLUMNS = tuple(RegressionColumns.model_fields)
"""Names of the columns of the table of rounds."""


def regression_quality(outputs: NDArray[np.float32], labels: NDArray[Any]) -> dict[str, float]:
    """Compute the regression columns of the table of rounds from predictions and labels of the test set, both (m,
    outputs).

    R^2 is one minus the squared error over that of the mean of the labels, averaged over the outputs; NaN if all labels
    of an output are equal.
    """
    wanted = labels.astype(np.float64)
    wrong = outputs.astype(np.float64) - wanted
    varies = np.square(wanted - wanted.mean(0)).sum(0)
    known = np.ptp(wanted, axis=0).all()
    explained = float((1 - np.square(wrong).sum(0) / varies).mean()) if known else math.nan
    return dict(zip(COLUMNS, (explained, float(np.abs(wrong).mean())), strict=True))


NOT_MEASURED = dict.fromkeys(COLUMNS, math.nan)
"""Columns of a version that was not tested."""
