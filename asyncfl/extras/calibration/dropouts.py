"""Fit the two ways in which clients drop out of a task: with a probability during its training, and at a rate.

A client drops out during a training with probability p, after a share of it that is uniform in [0, 1), and abandons a
task at rate r per second from its dispatch, without the time that it waits for a place to compute. A dropout in the
middle of a training may be either, so p and r are estimated by expectation maximisation (Dempster, Laird & Rubin,
J. Roy. Statist. Soc. B 39, 1977): a dropout in a training that takes C seconds, of which a share u is done, is one at
the rate with probability r (1 - p u) / (r (1 - p u) + p / C).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.extras.calibration.families import Floats
from asyncfl.extras.calibration.observations import ObservedRun, left_s, trained_s

STEPS = 200  # steps of expectation maximisation


@dataclass(frozen=True)
class FittedDropout:
    probability: float  # of a dropout during a training
    per_s: float  # rate of abandoning a task
    dropouts: int  # observed


def fit_dropout(runs: Sequence[ObservedRun], s_per_sample: Floats) -> FittedDropout:
    """Fit both to the dropouts of runs. `s_per_sample`: (clients,) fitted speeds of the clients."""
    at_tasks_s, parts = 0.0, []
    for run in runs:
        tasks = run.tasks
        # Others were offline, stopped by a deadline, or left.
        dropped = tasks.with_outcome("dropped_out")
        waited = np.nan_to_num(tasks.training_started_s - tasks.downloaded_s)
        at_tasks_s += float((left_s(tasks) - tasks.dispatched_s - waited).sum())
        begun = ~np.isnan(tasks.training_started_s)
        whole_s = np.maximum(s_per_sample[tasks.client] * run.work, 1e-9)
        done = np.where(
            run.training_finished, 1.0, np.nan_to_num(trained_s(tasks) - tasks.training_started_s) / whole_s
        )
        inside = dropped & begun & np.isnan(tasks.trained_s)
        parts.append(np.stack([begun, dropped, inside, np.clip(done, 0.0, 1.0), whole_s]))
    begun, dropped, inside, done, whole_s = np.concatenate(parts, axis=1)
    total = int(dropped.sum())
    if not total:
        return FittedDropout(0.0, 0.0, 0)
    ours, outside = inside > 0, float((dropped * (1 - inside)).sum())
    rate, probability = total / at_tasks_s, total / max(1.0, float(begun.sum()))
    for _ in range(STEPS):
        left, done_by, cost_s = rate * (1 - probability * done[ours]), done[ours], whole_s[ours]
        at_rate = left / np.maximum(left + probability / cost_s, 1e-300)
        # A training that was broken off after a share has shown as much of its chance to drop out.
        shown = float((begun * done)[~ours].sum()) + float((1 - at_rate).sum()) + float((at_rate * done_by).sum())
        rate = (outside + float(at_rate.sum())) / at_tasks_s
        probability = min(float((1 - at_rate).sum()) / max(shown, 1e-9), 1 - 1e-9)
    # What is less than one dropout is none.
    expected = probability * float(begun.sum()), rate * at_tasks_s
    return FittedDropout(probability if expected[0] >= 1 else 0.0, rate if expected[1] >= 1 else 0.0, total)
