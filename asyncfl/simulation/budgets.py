"""Columns of the table of rounds about budgets that differ between uploads."""

from __future__ import annotations

import math

import numpy as np

from asyncfl.client import TaskPath

BUDGETS = ("budget_mean", "budget_min", "budget_max", "budget_sum", "sigma_u_mean")
"""Of the updates that were aggregated into a version: mean, least, largest and sum of their epsilons, and the mean of
the standard deviations that the scheme asks their clients to add. Only where a scheme gives uploads budgets of their
own."""


def budget_columns(path: TaskPath) -> dict[str, float]:
    """The columns for the version that is about to be published; NaN where nothing entered it, none without budgets."""
    if path.scheme.upload_epsilon(path.context, path.state, 0, 0) is None:
        return {}
    epsilons = [one.epsilon for one in path.entered if one.epsilon is not None]
    if not epsilons:
        return dict.fromkeys(BUDGETS, math.nan)
    stds = [path.scheme.upload_std(path.context, path.entered_clip_norm, one) for one in path.entered]
    values = (np.mean(epsilons), min(epsilons), max(epsilons), math.fsum(epsilons), np.mean(stds))
    return dict(zip(BUDGETS, map(float, values), strict=True))
