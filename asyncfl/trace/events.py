"""Everything that can happen in a run, as one table of events.

A column that means nothing for a kind of event holds -1 (whole numbers), NaN (weight) or an empty text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Kind(StrEnum):
    """Kinds of events."""

    DISPATCHED = "dispatched"
    DOWNLOAD_STARTED = "download_started"
    DOWNLOADED = "downloaded"
    TRAINING_STARTED = "training_started"
    TRAINED = "trained"
    UPLOAD_STARTED = "upload_started"
    RETRANSMITTED = "retransmitted"
    LOST = "lost"
    UPLOADED = "uploaded"
    OVERHEARD = "overheard"
    ZEROED = "zeroed"
    REJECTED = "rejected"
    SCORES_REQUESTED = "scores_requested"
    SCORED = "scored"
    FLAGGED = "flagged"
    SHUFFLED = "shuffled"
    BANNED = "banned"
    BUDGET_SPENT = "budget_spent"
    AGGREGATION_STARTED = "aggregation_started"
    AGGREGATED = "aggregated"
    DISCARDED = "discarded"
    PUBLISHED = "published"
    TIMER_FIRED = "timer_fired"
    WENT_OFFLINE = "went_offline"
    CAME_ONLINE = "came_online"
    DROPPED_OUT = "dropped_out"
    SHORT_BUFFER = "short_buffer"
    COHORT_REPEATED = "cohort_repeated"
    STOPPED = "stopped"


SCORING_DOWN, SCORING_UP = "scoring down", "scoring up"
"""Details of events of the messages of a request for scores: the models to a client, and its scores."""

NO_EPOCH = "no epoch by its deadline"
"""Detail of a client's giving a task up of which it has not done enough to send."""


def epochs_detail(done: int, of: int) -> str:
    """Detail of the end of a training that was stopped; `epochs_done` reads it."""
    return f"{done} of {of} epochs"


def is_epochs_detail(detail: str, of: int) -> bool:
    """Whether that is the detail of the end of a training that was stopped, 1..`of` - 1 epochs done."""
    done = detail.partition(" ")[0]
    return done.isdecimal() and 1 <= int(done) < of and detail == epochs_detail(int(done), of)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    time_s: float
    """Virtual seconds since the start of the run."""
    seq: int
    """Place among all events of the run; events of the same time happened in this order."""
    seed: int
    """Seed of the run."""
    kind: str
    """One of `Kind`."""
    task: int = -1
    """Number of the task."""
    client: int = -1
    """Number of the client."""
    version: int = -1
    """Version of the global model that was out when it happened: of a `published`, the one that it publishes; of an
    `aggregated`, `flagged` or `rejected`, the one before that which the buffer makes, whatever time an aggregation
    takes. Where an update was judged, `version - base_version` is its staleness."""
    base_version: int = -1
    """Version that the task was sent."""
    staleness: int = -1
    """Versions between the two when an update was judged."""
    bytes: int = -1
    """Bytes that went over the link, retransmissions included; of a `retransmitted`, those sent again; of a
    `went_offline` or `dropped_out`, those of the packets that had left of the message that broke off."""
    attempt: int = -1
    """Number of the transmission, 1 for the first; where a message arrived or was lost, of the last one."""
    weight: float = float("nan")
    """Factor of the update in the aggregate."""
    detail: str = ""
    """What else there is to say."""


SCHEMA = pa.schema(
    [
        ("time_s", pa.float64()),
        ("seq", pa.int64()),
        ("seed", pa.int64()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("task", pa.int64()),
        ("client", pa.int64()),
        ("version", pa.int32()),
        ("base_version", pa.int32()),
        ("staleness", pa.int32()),
        ("bytes", pa.int64()),
        ("attempt", pa.int16()),
        ("weight", pa.float64()),
        ("detail", pa.dictionary(pa.int32(), pa.string())),
    ]
)
"""Arrow types of the columns of the event table, in order."""
