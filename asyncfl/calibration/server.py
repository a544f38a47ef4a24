"""How long the server takes over a buffer, and how often clients give their tasks up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.calibration.observations import Floats, SeenRun, Trainings
from asyncfl.messages import Fate
from asyncfl.trace.events import NO_EPOCH, Kind
from asyncfl.trace.tasks import FATES
from asyncfl.trace.tasks import Tasks as TaskColumns


@dataclass(frozen=True)
class GivingUp:
    """How clients give tasks up although they stay online."""

    dropout: float
    """Probability that a training breaks off."""
    dropout_per_s: float
    """Rate per second of a task."""
    times: int


def server_s(runs: Sequence[SeenRun]) -> Floats:
    """Seconds from the last update of a buffer to the version made of it, of each version that was not kept waiting
    for anything else; none where clients score updates, for whom the server waits too."""
    found: list[float] = []
    for run in runs:
        if len(run.rows(Kind.SCORES_REQUESTED)):
            continue
        time_s, version = run.column("time_s"), run.column("version")
        used = run.tasks.only(run.tasks.fate == FATES.index(Fate.AGGREGATED))
        timers = time_s[run.rows(Kind.TIMER_FIRED)]
        failed = time_s[run.rows(Kind.LOST, Kind.DROPPED_OUT, Kind.DISCARDED)]
        published = {int(version[row]): float(time_s[row]) for row in run.rows(Kind.PUBLISHED)}
        started = time_s[run.rows(Kind.AGGREGATION_STARTED)]
        for number, at_s in published.items():
            theirs = used.uploaded_s[(used.making == number) & (used.uploaded_s <= at_s)]
            if number == 0 or not len(theirs):
                continue
            began_s = float(theirs.max())
            told = started[(started >= began_s) & (started <= at_s)]
            before = timers[(timers >= began_s) & (timers < at_s)]
            if len(told):
                began_s = float(told[-1])
            elif len(before):
                began_s = float(before[-1])
            elif ((failed > began_s) & (failed <= at_s)).any():
                continue  # it waited for who did not come
            # What had come before the last version was published waited for that.
            found.append(at_s - max(began_s, published.get(number - 1, 0.0)))
    return np.array(found)


def giving_up(runs: Sequence[SeenRun], trainings: Trainings, s_per_sample: Floats) -> GivingUp:
    """What makes the tasks that were given up likeliest: a probability per training, or a rate per second."""
    in_training, elsewhere, at_s, begun = 0, 0, 0.0, len(trainings.client)
    log_density = 0.0
    for run in runs:
        rows = run.rows(Kind.DROPPED_OUT)
        numbers, size = run.column("task")[rows], run.column("bytes")[rows]
        details = run.events["detail"].take(rows).to_pylist()
        tasks = run.tasks
        for number, sent, detail in zip(numbers, size, details, strict=True):
            if detail in ("offline", "left", NO_EPOCH) or number < 0:
                continue
            if sent >= 0:
                elsewhere += 1
                continue
            in_training += 1
            place = int(np.flatnonzero(tasks.task == number)[0])
            client = int(tasks.client[place])
            work = run.samples[client] * run.scenario.training.epochs
            log_density -= math.log(max(float(work * s_per_sample[client]), 1e-12))
        at_s += _at_tasks_s(tasks)
    times = in_training + elsewhere
    if times == 0:
        return GivingUp(0.0, 0.0, 0)
    rate = times / max(at_s, 1e-12)
    p = in_training / begun
    if elsewhere == 0 and p < 1:
        by_task = in_training * math.log(p) + (begun - in_training) * math.log1p(-p) + log_density
        by_second = times * math.log(rate) - rate * at_s
        if by_task >= by_second:
            return GivingUp(p, 0.0, times)
    return GivingUp(0.0, rate, times)


def _at_tasks_s(tasks: TaskColumns) -> float:
    """Seconds that clients were at tasks."""
    until_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
    return float((until_s - tasks.dispatched_s).sum())
