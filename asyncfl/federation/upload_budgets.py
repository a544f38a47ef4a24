"""Columns of the table of rounds about privacy budgets that differ between uploads."""

from __future__ import annotations

import math

import numpy as np

from asyncfl.base.columns import UploadBudgetColumns
from asyncfl.client import TaskPath
from asyncfl.privacy.upload_records import ModelRelease

BUDGETS = tuple(UploadBudgetColumns.model_fields)
"""Columns about the updates that were aggregated into a version, for schemes with a budget per upload."""


def budget_columns(path: TaskPath, model: ModelRelease | None) -> dict[str, float]:
    """Return the columns for a published model; NaN if it was made of no update (`model` None); none without
    budgets."""
    if path.state.epsilon(0, 0) is None:
        return {}
    contributions = () if model is None else model.contributions
    epsilons = [one.epsilon for one in contributions if one.epsilon is not None]
    if model is None or not epsilons:
        return dict.fromkeys(BUDGETS, math.nan)
    # Includes attackers that were asked for noise and added none.
    stds = [path.scheme.upload_noise(path.context, model.clip_norm, one).std for one in contributions]
    mean, mean_std = float(np.mean(epsilons)), float(np.mean(stds))
    values = (mean, min(epsilons), max(epsilons), math.fsum(epsilons), mean_std)
    return dict(zip(BUDGETS, values, strict=True))
