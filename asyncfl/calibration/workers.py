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
    turnaround_s: float
    """Mean seconds that a place stood empty between two of them, while somebody waited."""


def places_of(runs: Sequence[SeenRun]) -> SharedPlaces:
    """Whether clients wait for a place to compute, and how many places there are."""
    waits, computing, most = [], [], 0
    steps: list[tuple[Floats, Floats, Floats]] = []
    for run in runs:
        tasks = run.tasks
        waits.append(tasks.training_started_s - tasks.downloaded_s)
        came = ~np.isnan(tasks.downloaded_s)
        left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
        ended_s = np.where(np.isnan(tasks.trained_s), left_s, tasks.trained_s)
        began_s = tasks.training_started_s
        steps.append((tasks.downloaded_s[came], began_s[came], ended_s[came]))
        done = ~np.isnan(tasks.training_s)
        computing.append(tasks.training_s[done])
        most = max(most, _at_once(tasks.training_started_s[done], tasks.trained_s[done]))
    waits_s = np.concatenate(waits)
    waits_s = np.asarray(waits_s[~np.isnan(waits_s)], dtype=np.float64)
    mean_s = float(np.concatenate(computing).mean())
    shared = len(waits_s) > 0 and float(waits_s.mean()) > WAITS * mean_s
    if not shared:
        return SharedPlaces(None, waits_s, 0.0)
    empty_s, taken = np.sum([_empty(*one, most) for one in steps], axis=0)
    return SharedPlaces(most, waits_s, float(empty_s / max(taken, 1)))


def _empty(came_s: Floats, began_s: Floats, ended_s: Floats, places: int) -> tuple[float, int]:
    """Seconds that places stood empty while somebody waited, all together, and how many then were taken."""
    computes = ~np.isnan(began_s)
    # Who went offline while it waited leaves the queue, and takes no place.
    at_s = np.concatenate([came_s, np.where(computes, began_s, ended_s), ended_s])
    nobody = np.zeros(len(came_s))
    waiting = np.concatenate([nobody + 1, nobody - 1, nobody])
    inside = np.concatenate([nobody, computes, -computes.astype(np.float64)])
    order = np.argsort(at_s, kind="stable")
    queue, taken = np.cumsum(waiting[order]), np.cumsum(inside[order])
    some = queue[:-1] > 0
    free = np.maximum(places - taken[:-1], 0)
    return float((np.diff(at_s[order]) * free)[some].sum()), int((inside[order][1:] > 0)[some].sum())


def _at_once(began_s: Floats, ended_s: Floats) -> int:
    """The largest number of intervals that were under way together for `HELD` of the time that any was."""
    lasts = ended_s > began_s
    began_s, ended_s = began_s[lasts], ended_s[lasts]
    if not len(began_s):
        return 0
    at_s = np.concatenate([began_s, ended_s])
    step = np.concatenate([np.ones(len(began_s)), -np.ones(len(ended_s))])
    order = np.lexsort((step, at_s))
    under_way = np.cumsum(step[order])[:-1].astype(np.int64)
    held_s = np.bincount(under_way, np.diff(at_s[order]))
    held_s[0] = 0.0
    return int(np.flatnonzero(held_s > HELD * held_s.sum()).max())
