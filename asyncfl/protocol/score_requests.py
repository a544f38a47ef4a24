"""Scoring requests in a trace: a detector asks a client to score models before it judges a buffer.

The server has one open request at a time. A request ends with the client's scores, or when the server learns that none
will come; then it may ask another client for the same buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind

NO_ANSWER = "no answer"
"""Detail of a `scored` event without scores."""
TOO_LATE = "too late"
"""End of the detail of a `scored` event whose scores arrived when the server no longer waited for them."""


@dataclass(frozen=True)
class TracedScoreRequest:
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

    @property
    def answered(self) -> bool:
        """Whether the scores arrived."""
        return self.answer not in ("", NO_ANSWER)

    @property
    def description(self) -> str:
        return self.answer or f"{self.asked}, not finished"


def score_requests_of(events: pa.Table) -> list[TracedScoreRequest]:
    """Return the score requests of a whole trace, by seed and in order. `events`: in the order of the trace."""
    rows = select(events, kinds=[Kind.SCORES_REQUESTED, Kind.SCORED]).to_pylist()
    rows = [row for row in rows if not is_too_late(row["detail"])]
    found: list[TracedScoreRequest] = []
    for row, end in zip(rows, [*rows[1:], None], strict=False):
        if row["kind"] != Kind.SCORES_REQUESTED:
            continue
        if end is None or end["seed"] != row["seed"]:
            end = {"time_s": float(select(events, seed=row["seed"])["time_s"].to_numpy().max()), "detail": ""}
        times = row["time_s"], end["time_s"]
        found.append(
            TracedScoreRequest(row["seed"], row["client"], row["version"] + 1, *times, row["detail"], end["detail"])
        )
    return sorted(found, key=lambda request: request.seed)


def models_of(detail: str) -> int:
    """Return the number of models that the detail of a request or an answer tells, such as `3 models`."""
    return int(detail.split()[0])


def is_too_late(detail: str) -> bool:
    """Return whether `detail` is that of scores that arrived when the server no longer waited for them."""
    return detail.endswith(TOO_LATE)
