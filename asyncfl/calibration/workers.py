"""How many clients compute at the same time, where they share a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.calibration.observations import Floats, SeenRun

WAITS = 0.01
"""Share of a training's time that clients must wait for their turn in the mean, where they are said to share."""
HELD = 0.02
"""Share of the time of trainings for which so many must be under way: moments at which one ends and the next begins
are no sharing."""


@dataclass(frozen=True)
class SharedPlaces:
    """What was seen of clients that wait for each other."""

    workers: int | None
    """Clients that compute at the same time; None: nobody waits."""
    waits_s: Floats
    """Seconds from the arrival of a model until its training began."""


def places_of(runs: Sequence[SeenRun]) -> SharedPlaces:
    """Whether clients wait for a place to compute, and how many places there are."""
    waits, computing, most = [], [], 0
    for run in runs:
        tasks = run.tasks
        waits.append(tasks.training_started_s - tasks.downloaded_s)
        done = ~np.isnan(tasks.training_s)
        computing.append(tasks.training_s[done])
        most = max(most, _at_once(tasks.training_started_s[done], tasks.trained_s[done]))
    waits_s = np.concatenate(waits)
    waits_s = np.asarray(waits_s[~np.isnan(waits_s)], dtype=np.float64)
    mean_s = float(np.concatenate(computing).mean())
    shared = len(waits_s) > 0 and float(waits_s.mean()) > WAITS * mean_s
    return SharedPlaces(most if shared else None, waits_s)


def _at_once(began_s: Floats, ended_s: Floats) -> int:
    """The largest number of intervals that were under way together for `HELD` of the time that any was."""
    at_s = np.concatenate([began_s, ended_s])
    step = np.concatenate([np.ones(len(began_s)), -np.ones(len(ended_s))])
    order = np.lexsort((step, at_s))
    under_way = np.cumsum(step[order])[:-1].astype(np.int64)
    held_s = np.bincount(under_way, np.diff(at_s[order]))
    held_s[0] = 0.0
    return int(np.flatnonzero(held_s > HELD * held_s.sum()).max())
