"""Estimate when the server aggregated and evaluated."""

from __future__ import annotations

import numpy as np

from asyncfl.base.messages import Fate
from asyncfl.calibration.families import Floats
from asyncfl.calibration.observations import ObservedRun
from asyncfl.trace.events import Kind
from asyncfl.trace.tasks import FATES

AT_ONCE = 0.05
"""Share of an aggregation's duration after publication within which dispatches belong to the publication."""


def aggregations_of(run: ObservedRun) -> tuple[Floats, Floats]:
    """Return (n,) starts and (n,) ends of aggregations, seconds: from the last update of a buffer to its version.

    Versions that waited for something else are left out. Where clients score updates there are none, because the server
    waits for the scores.
    """
    found: list[tuple[float, float]] = []
    time_s, published = run.column("time_s"), published_s(run)
    used = run.tasks.only(run.tasks.fate == FATES.index(Fate.AGGREGATED))
    timers, started = (time_s[run.rows(kind)] for kind in (Kind.TIMER_FIRED, Kind.AGGREGATION_STARTED))
    failed = time_s[run.rows(Kind.LOST, Kind.DROPPED_OUT, Kind.DISCARDED)]
    for number, at_s in published.items() if not len(run.rows(Kind.SCORES_REQUESTED)) else ():
        theirs = used.uploaded_s[(used.making == number) & (used.uploaded_s <= at_s)]
        if number == 0 or not len(theirs):
            continue
        began_s = float(theirs.max())
        recorded = started[(started >= began_s) & (started <= at_s)]
        before = timers[(timers >= began_s) & (timers < at_s)]
        if len(recorded):
            began_s = float(recorded[-1])
        elif len(before):
            began_s = float(before[-1])
        elif ((failed > began_s) & (failed <= at_s)).any():
            continue  # the buffer waited for an update that did not arrive
        # An update that arrived before the last version was published waited for that.
        found.append((max(began_s, published.get(number - 1, 0.0)), at_s))
    began, ended = np.array(found).reshape(-1, 2).T
    return began, ended


def aggregates_alone(run: ObservedRun, aggregated: tuple[Floats, Floats]) -> bool | None:
    """Return whether the server mostly dispatched no task while it aggregated.

    None: no aggregation took time, or the protocol dispatches tasks only with new versions.
    """
    began_s, ended_s = (one[aggregated[1] > aggregated[0]] for one in aggregated)
    if not len(began_s) or not run.scenario.protocol.dispatch.level(len(run.samples)):
        return None
    published = published_s(run)
    tasks, made_s = run.tasks, np.array([published[version] for version in range(len(published))])
    # A task dispatched upon publication of a version gets that version, and is not dispatched during an aggregation.
    # A real server reads its clock again for the dispatch, slightly after the publication.
    soon_s = AT_ONCE * float(np.median(ended_s - began_s))
    for_next = tasks.dispatched_s - made_s[tasks.base_version] <= soon_s
    given_s = np.sort(tasks.dispatched_s[~for_next])
    meanwhile = np.searchsorted(given_s, ended_s, side="left") > np.searchsorted(given_s, began_s, side="left")
    # A request just before the last update of a buffer may be handled just after it.
    return float(meanwhile.mean()) < 0.5


def evaluated_s(run: ObservedRun) -> Floats:
    """Return the publication times of the evaluated versions, ascending."""
    every, last = run.scenario.evaluation.test_every, run.scenario.protocol.rounds
    published = published_s(run)
    due = [version for version in published if version == last or (every > 0 and version % every == 0)]
    return np.sort([published[version] for version in due])


def published_s(run: ObservedRun) -> dict[int, float]:
    time_s, version = run.column("time_s"), run.column("version")
    return {int(version[row]): float(time_s[row]) for row in run.rows(Kind.PUBLISHED)}
