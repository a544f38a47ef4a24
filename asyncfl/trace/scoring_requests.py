"""Scoring requests in a trace: a detector asks a client to score models before it judges a buffer.

The server has one open request at a time. A request ends with the client's scores, or when the server learns that none
will come; then it may ask another client for the same buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from asyncfl.trace.events import Kind
from asyncfl.trace.query import select
from asyncfl.trace.tasks import Floats, Ints


@dataclass(frozen=True)
class ScoringRequest:
    """A request to a client to score models."""

    seed: int
    client: int
    making: int
    """Version to be made of the judged buffer."""
    asked_s: float
    ended_s: float
    """Arrival of the scores, or the time at which the server learned that none would come; or end of the trace."""
    asked: str
    """Description of the models to score."""
    answer: str
    """Description of the answer; empty where the trace ended before."""
    answered: bool
    """Whether the scores arrived."""

    @property
    def took_s(self) -> float:
        """Seconds from the request to the scores; NaN: no scores."""
        return self.ended_s - self.asked_s if self.answered else float("nan")


def scoring_requests_of(events: pa.Table) -> list[ScoringRequest]:
    """Return the scoring requests of a whole trace, by seed and in order. `events`: in the order of the trace."""
    rows = select(events, kinds=[Kind.SCORES_REQUESTED, Kind.SCORED]).to_pylist()
    rows = [row for row in rows if not is_too_late(row["detail"])]
    found: list[ScoringRequest] = []
    for number, row in enumerate(rows):
        if row["kind"] != Kind.SCORES_REQUESTED:
            continue
        end = rows[number + 1] if number + 1 < len(rows) and rows[number + 1]["seed"] == row["seed"] else None
        ended_s = _last_s(events, row["seed"]) if end is None else end["time_s"]
        answer = "" if end is None else end["detail"]
        answered = end is not None and answer != NO_ANSWER
        making = row["version"] + 1
        asked = ScoringRequest(
            row["seed"], row["client"], making, row["time_s"], ended_s, row["detail"], answer, answered
        )
        found.append(asked)
    return sorted(found, key=lambda request: request.seed)


NO_ANSWER = "no answer"
"""Detail of a `scored` event without scores."""
TOO_LATE = "too late"
"""End of the detail of a `scored` event whose scores arrived when the server no longer waited for them."""


def is_too_late(detail: str) -> bool:
    """Return whether `detail` is that of scores that arrived when the server no longer waited for them."""
    return detail.endswith(TOO_LATE)


def columns(requests: Sequence[ScoringRequest], seeds: Ints, groups: Ints, by: str) -> dict[str, Ints | Floats]:
    """Compute columns about scoring requests for a table with a row per seed and group.

    Args:
        requests: Scoring requests of the trace.
        seeds: (rows,) seed of each row.
        groups: (rows,) client, version or seed of each row.
        by: Meaning of `groups`: `client`, `version` or `seed`.

    Returns:
        Columns (rows,): `score_requests`; `scores`, answered requests; `scoring_s`, mean seconds until the answer.
    """
    name = {"version": "making"}.get(by, by)
    row_of = {key: row for row, key in enumerate(zip(seeds.tolist(), groups.tolist(), strict=True))}
    asked, answered, took_s = (np.zeros(len(seeds)) for _ in range(3))
    for request in requests:
        row = row_of.get((request.seed, getattr(request, name)))
        if row is not None:
            asked[row] += 1
            answered[row] += request.answered
            took_s[row] += request.took_s if request.answered else 0.0
    mean = np.divide(took_s, answered, out=np.full(len(seeds), np.nan), where=answered > 0)
    return {"score_requests": asked.astype(np.int64), "scores": answered.astype(np.int64), "scoring_s": mean}


def _last_s(events: pa.Table, seed: int) -> float:
    return float(select(events, seed=seed)["time_s"].to_numpy().max(initial=0.0))
