"""Tables of tasks by group: fates, mean durations of phases, staleness, traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from asyncfl.protocol.score_requests import TracedScoreRequest
from asyncfl.protocol.tasks import FATES, Tasks

By: TypeAlias = Literal["client", "version", "base_version", "seed", "staleness"]
"""Group of the rows of a table, besides the seed.

`client`; `version`: the version that was being made when a task was settled; `base_version`: the version that the
client was sent; `seed`: all tasks; `staleness`: that of judged updates.
"""

PHASES = ("download_s", "training_s", "upload_s", "waiting_s")


def tabulate(tasks: Tasks, by: By, requests: Sequence[TracedScoreRequest] = ()) -> pa.Table:
    """Return a table of tasks by seed and group: counts, occurring fates, mean seconds of phases, staleness, traffic.

    Means are over the tasks that finished the phase; NaN where none did. `waiting_s` is the time from the arrival of an
    update until it was judged. Rows by `version` leave out unfinished tasks, rows by `staleness` tasks that were not
    judged. `requests`: score requests, counted by client, version or seed.
    """
    group = tasks.making if by == "version" else getattr(tasks, by)
    tasks, group = tasks.only(group >= 0), group[group >= 0]
    judged = tasks.staleness >= 0
    fates = {fate: tasks.fate == number for number, fate in enumerate(FATES) if (tasks.fate == number).any()}
    resent = np.maximum(tasks.attempts_down - 1, 0) + np.maximum(tasks.attempts_up - 1, 0)
    measured = {name: getattr(tasks, name) for name in PHASES}
    measured |= {"staleness_mean": np.where(judged, tasks.staleness, np.nan)} if by != "staleness" else {}
    measured["weight_mean"] = np.where(judged, tasks.weight, np.nan)
    counted = {"tasks": np.ones(len(tasks), np.int64), **fates, "retransmissions": resent, "overheard": tasks.overheard}
    keys: list[str] = list(dict.fromkeys(["seed", by]))
    rows = pd.DataFrame({"seed": tasks.seed, by: group, **counted, **measured}).groupby(keys)
    sums, means = rows[list(counted)].sum().astype(np.int64), rows[list(measured)].mean()
    table = sums[["tasks"]]
    if by == "staleness":
        table = table.assign(share=sums["tasks"] / sums["tasks"].groupby("seed").transform("sum"))
    table = table.join(sums[list(fates)]).join(means[list(PHASES)])
    if by != "staleness":
        table = table.join(means["staleness_mean"])
        ages = pd.DataFrame({"seed": tasks.seed, by: group, "age": tasks.staleness})[judged].sort_values([*keys, "age"])
        place, size = ages.groupby(keys).cumcount() + 1, ages.groupby(keys)["age"].transform("size")
        for name, share in (("staleness_p50", 0.5), ("staleness_p90", 0.9), ("staleness_max", 1.0)):
            # The smallest value that reaches the share. 1e-9: 0.9 of 10 is the ninth value, in spite of rounding.
            reached = ages[place == np.maximum(np.ceil(share * size - 1e-9), 1)]
            table[name] = reached.set_index(keys)["age"].astype(np.float64)
    table = table.join(means["weight_mean"]).join(sums[["retransmissions", "overheard"]])
    if requests and by in ("client", "version", "seed"):
        table = _with_requests(table, keys, requests)
    return pa.table({name: column.to_numpy() for name, column in table.reset_index().items()})


def _with_requests(table: pd.DataFrame, keys: list[str], requests: Sequence[TracedScoreRequest]) -> pd.DataFrame:
    """Add columns about score requests: how many, how many answered, mean seconds until the answer."""
    asked = pd.DataFrame(
        {
            "seed": [one.seed for one in requests],
            "client": [one.client for one in requests],
            "version": [one.making for one in requests],
            "answered": [one.answered for one in requests],
            "took_s": [one.ended_s - one.asked_s if one.answered else np.nan for one in requests],
        }
    ).groupby(keys)
    answers = asked.agg(score_requests=("answered", "size"), scores=("answered", "sum"), scoring_s=("took_s", "mean"))
    table = table.join(answers)
    return table.fillna({"score_requests": 0, "scores": 0}).astype({"score_requests": int, "scores": int})
