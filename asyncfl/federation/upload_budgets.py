"""Columns of the table of rounds about budgets that differ between uploads."""

from __future__ import annotations

import math

import numpy as np

from asyncfl.client import TaskPath
from asyncfl.columns import UploadBudgetColumns
from asyncfl.messages import Publish

BUDGETS = tuple(UploadBudgetColumns.model_fields)
"""Of the updates that were aggregated into a version. Only where a scheme gives uploads budgets of their own."""


def budget_columns(path: TaskPath, publish: Publish) -> dict[str, float]:
    """The columns for the version that is published; NaN where nothing entered it, none without budgets."""
    if path.state.epsilon(0, 0) is None:
        return {}
    epsilons = [one.epsilon for one in path.entered if one.epsilon is not None]
    if not epsilons or not publish.participants:
        return dict.fromkeys(BUDGETS, math.nan)
    stds = [path.scheme.upload_noise(path.context, path.entered_clip_norm, one).std for one in path.entered]
    mean, mean_std = float(np.mean(epsilons)), float(np.mean(stds))
    values = (mean, min(epsilons), max(epsilons), math.fsum(epsilons), mean_std)
    return dict(zip(BUDGETS, values, strict=True))
