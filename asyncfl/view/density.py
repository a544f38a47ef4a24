"""Tasks under way by groups of clients and spans of time, for runs of too many tasks to draw each.

A value is the mean number of tasks under way per client of the group, over the span: an integral, so that a task that
lasts for a tenth of a span counts a tenth.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Fate
from asyncfl.trace.tasks import FATES, Floats, Ints, Tasks, microseconds
from asyncfl.view.packing import Packing

SPANS = 500
"""Spans of time from the start of a seed to its end."""
MOST_CELLS = 60_000
"""Most groups of clients times spans, of all seeds of a page together."""
PARTS = 1000
"""Values are rounded to so many parts of 1."""


def pack_density(tasks: Tasks, clients: int, end_s: float, seeds: int, packing: Packing) -> dict[str, Any]:
    """Pack the densities of one seed. `tasks`: all of it; `clients`: of the population; `seeds`: of the page."""
    # Neighbouring clients share a lane, so that all densities together have at most MOST_CELLS cells.
    each = math.ceil(clients / max(1, MOST_CELLS // SPANS // seeds))
    left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
    used = (tasks.fate == FATES.index(Fate.AGGREGATED)) & (tasks.weight > 0)
    intervals = {
        "all": (tasks.dispatched_s, left_s),
        "download": (tasks.download_started_s, tasks.downloaded_s),
        "training": (tasks.training_started_s, tasks.trained_s),
        "upload": (tasks.upload_started_s, tasks.uploaded_s),
        "unused": (np.where(used, np.nan, tasks.dispatched_s), left_s),
    }
    layers = {}
    for name, (began_s, ended_s) in intervals.items():
        ended_s = np.where(np.isnan(ended_s), left_s, ended_s)
        values = density(began_s, ended_s, tasks.client, clients, each, end_s)
        layers[name] = packing.numbers(np.rint(values * PARTS).astype(int))
    lanes = math.ceil(clients / each)
    sizes = {"clients_per_lane": each, "lanes": lanes, "spans": SPANS, "tasks": len(tasks)}
    return {**sizes, "parts": PARTS, "layers": layers}


def density(
    began_s: Floats, ended_s: Floats, client: Ints, clients: int, per_lane: int, end_s: float
) -> NDArray[np.float64]:
    """Return the mean number of intervals under way per client, lane by lane, (lanes * SPANS,).

    began_s, ended_s, client: (n,), NaN where nothing began. Spans are equally long, from 0 to end_s.
    """
    lanes = math.ceil(clients / per_lane)
    known = ~np.isnan(began_s)
    # An interval is what is under way from its beginning on, less what is from its end on.
    at = np.concatenate([began_s[known], ended_s[known]])
    sign = np.repeat([1.0, -1.0], known.sum())
    lane = np.tile(client[known] // per_lane, 2)
    at = np.minimum(at / end_s * SPANS if end_s else at, SPANS)
    span = np.minimum(at.astype(np.int64), SPANS - 1)
    place = lane * SPANS + span
    shape = (lanes, SPANS)
    within = np.bincount(place, sign * (span + 1 - at), lanes * SPANS).reshape(shape)
    begun = np.cumsum(np.bincount(place, sign, lanes * SPANS).reshape(shape), axis=1)
    within[:, 1:] += begun[:, :-1]
    in_lane = np.bincount(np.arange(clients) // per_lane, minlength=lanes)
    # Rounding of sums may make it slightly negative.
    return (np.maximum(within, 0.0) / in_lane[:, np.newaxis]).ravel()


def pack_fill(tasks: Tasks, edges_s: Floats | None, packing: Packing) -> dict[str, Any]:
    """Pack the number of updates that the server holds whenever it changes; or the most in the spans between `edges_s`.

    Updates that are used as they come are counted before they go.
    """
    kept = tasks.only(tasks.held)
    came, went = kept.uploaded_s, kept.settled_s[~np.isnan(kept.settled_s)]
    at = np.concatenate([came, went])
    change = np.repeat([1, -1], [len(came), len(went)])
    order = np.lexsort((-change, at))
    at, change, held = at[order], change[order], np.cumsum(change[order])
    if edges_s is None:
        together = (at[1:] == at[:-1]) & (change[1:] == change[:-1])
        last = np.flatnonzero(~np.append(together, np.zeros(min(len(at), 1), bool)))
        times, fill = np.append(0.0, at[last]), np.append(0, held[last])
    else:
        first, end = (np.searchsorted(at, edges, side="left") for edges in (edges_s[:-1], edges_s[1:]))
        before = np.concatenate([[0], held])[first]
        most = np.maximum.reduceat(np.append(held, 0), first) if len(first) else first
        times, fill = edges_s[:-1], np.where(end > first, np.maximum(most, before), before)
    return {"fill_time": packing.numbers(microseconds(times)), "fill": packing.numbers(fill.astype(np.int64))}
