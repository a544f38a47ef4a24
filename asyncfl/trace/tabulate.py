"""Tables of tasks by group: fates, mean durations of phases, staleness, traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.trace.scoring_requests import ScoringRequest
from asyncfl.trace.scoring_requests import columns as columns_of_requests
from asyncfl.trace.tasks import FATES, Floats, Ints, Tasks

By: TypeAlias = Literal["client", "version", "base_version", "seed", "staleness"]
"""Group of the rows of a table, besides the seed.

`client`; `version`: the version that was being made when a task was settled; `base_version`: the version that the
client was sent; `seed`: all tasks; `staleness`: that of judged updates.
"""


def tabulate(tasks: Tasks, by: By, requests: Sequence[ScoringRequest] = ()) -> pa.Table:
    """Return a table of tasks by seed and group: counts, occurring fates, mean seconds of phases, staleness, traffic.

    Means are over the tasks that finished the phase; NaN where none did. `waiting_s` is the time from the arrival of an
    update until it was judged. Rows by `version` leave out unfinished tasks, rows by `staleness` tasks that were not
    judged. `requests`: scoring requests, counted by client, version or seed.
    """
    group = {"version": tasks.making, "seed": tasks.seed}.get(by)
    group = getattr(tasks, by) if group is None else group
    inside = group >= 0
    tasks, group = tasks.only(inside), group[inside]
    keys, row_of = np.unique(np.stack([tasks.seed, group]), axis=1, return_inverse=True)
    row_of = row_of.reshape(-1)
    rows = keys.shape[1]
    columns: dict[str, NDArray[Any]] = {"seed": keys[0]}
    if by != "seed":
        columns[by] = keys[1]
    columns["tasks"] = np.bincount(row_of, minlength=rows)
    if by == "staleness":
        columns["share"] = columns["tasks"] / _per_seed(keys[0], columns["tasks"])
    for number, name in enumerate(FATES):
        # A fate that no task has would be a column of zeros.
        if (met := tasks.fate == number).any():
            columns[name] = np.bincount(row_of[met], minlength=rows)
    for name in ("download_s", "training_s", "upload_s", "waiting_s"):
        columns[name] = _mean(getattr(tasks, name), row_of, rows)
    judged = tasks.staleness >= 0
    staleness = np.where(judged, tasks.staleness.astype(np.float64), np.nan)
    if by != "staleness":
        columns["staleness_mean"] = _mean(staleness, row_of, rows)
        columns |= _quantiles(tasks.staleness[judged], row_of[judged], rows)
    columns["weight_mean"] = _mean(np.where(judged, tasks.weight, np.nan), row_of, rows)
    resent = np.maximum(tasks.attempts_down - 1, 0) + np.maximum(tasks.attempts_up - 1, 0)
    columns["retransmissions"] = np.bincount(row_of, weights=resent, minlength=rows).astype(np.int64)
    columns["overheard"] = np.bincount(row_of, weights=tasks.overheard, minlength=rows).astype(np.int64)
    if requests and by in ("client", "version", "seed"):
        columns |= columns_of_requests(requests, keys[0], keys[1], by)
    return pa.table(columns)


def _per_seed(seeds: Ints, counts: NDArray[Any]) -> NDArray[Any]:
    """Return for each row the sum of `counts` over all rows of its seed, (rows,)."""
    _, of = np.unique(seeds, return_inverse=True)
    total: NDArray[Any] = np.bincount(of, weights=counts)[of]
    return total


def _mean(values: Floats, row_of: Ints, rows: int) -> Floats:
    """Compute the mean of the values of each row, (rows,), without NaN. `row_of`: (tasks,) row of each value."""
    known = ~np.isnan(values)
    sums = np.bincount(row_of[known], weights=values[known], minlength=rows)
    numbers = np.bincount(row_of[known], minlength=rows)
    mean: Floats = np.divide(sums, numbers, out=np.full(rows, np.nan), where=numbers > 0)
    return mean


def _quantiles(staleness: Ints, row_of: Ints, rows: int) -> dict[str, Floats]:
    """Compute median, 90 % quantile and maximum of each row, as the smallest occurring value that reaches the share.

    `staleness`, `row_of`: (updates,) staleness and row of each judged update. Returns name of the column -> (rows,).
    """
    order = np.lexsort((staleness, row_of))
    ordered = staleness[order].astype(np.float64)
    numbers = np.bincount(row_of, minlength=rows)
    starts = np.cumsum(numbers) - numbers
    found = {}
    for name, share in (("staleness_p50", 0.5), ("staleness_p90", 0.9), ("staleness_max", 1.0)):
        # 1e-9: 0.9 of 10 is the ninth value, in spite of rounding.
        place = starts + np.maximum(np.ceil(share * numbers - 1e-9).astype(np.int64), 1) - 1
        column = np.full(rows, np.nan)
        column[numbers > 0] = ordered[place[numbers > 0]]
        found[name] = column
    return found
