"""Events of a run, as one table.

A column that does not apply to a kind of event holds -1 (whole numbers), NaN (weight) or an empty text. Each kind and
each column declares what it tells an adversary that observes the event about training data (`asyncfl.base.disclosure`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pyarrow as pa

from asyncfl.base.component import Described
from asyncfl.base.disclosure import (
    BATCHES,
    BUDGETS,
    LOSSES,
    REJECTION,
    SCORES,
    Disclosure,
    Leak,
    Public,
    Released,
    Unsent,
)
from asyncfl.base.tables import Bytes, Column, Count, Number, Seconds, Seed, Version, about, schema_of


class Kind(StrEnum):
    """Kinds of events."""

    __hash__ = str.__hash__  # an enumeration's own is five times slower

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
    OVERHEARD_IN_PART = "overheard_in_part"
    ZEROED = "zeroed"
    REJECTED = "rejected"
    SCORES_REQUESTED = "scores_requested"
    SCORED = "scored"
    FLAGGED = "flagged"
    SHUFFLED = "shuffled"
    MASKS_AGREED = "masks_agreed"
    UNMASKED = "unmasked"
    NOT_UNMASKED = "not_unmasked"
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


PHASES = frozenset({Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, Kind.TRAINING_STARTED, Kind.TRAINED, Kind.UPLOAD_STARTED})
"""Kinds of events that a trace of fates lacks, with those of parts of messages (`Recorder.whole`)."""

CAUGHT = (Kind.OVERHEARD, Kind.OVERHEARD_IN_PART)
"""Kinds of events after which the eavesdropper holds a message, whole or in part."""

_WORLD = Leak(BATCHES, Public("devices, links and availability decide it, not the values of samples"))
_CHOICE = Leak(LOSSES, Public("the server chose the client at random, by its tasks so far or by times"))
_UPLOAD = Released("the scheme's noise on uploads; without noise the ledger counts a bare upload")
_VERDICT = Released("uploads and scores, which the ledger counts for each adversary that sees a decision based on them")

_DISCLOSURES: dict[Disclosure, tuple[Kind, ...]] = {
    _CHOICE: (Kind.DISPATCHED,),
    _WORLD: (
        *(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, Kind.TRAINING_STARTED, Kind.TRAINED, Kind.UPLOAD_STARTED),
        *(Kind.RETRANSMITTED, Kind.LOST, Kind.AGGREGATION_STARTED, Kind.TIMER_FIRED, Kind.WENT_OFFLINE),
        *(Kind.CAME_ONLINE, Kind.DROPPED_OUT, Kind.COHORT_REPEATED),
        *(Kind.MASKS_AGREED, Kind.UNMASKED, Kind.NOT_UNMASKED),
    ),
    _UPLOAD: (Kind.UPLOADED, *CAUGHT),
    _VERDICT: (
        *(Kind.SCORES_REQUESTED, Kind.FLAGGED, Kind.BANNED, Kind.AGGREGATED, Kind.DISCARDED, Kind.SHORT_BUFFER),
        Kind.STOPPED,
    ),
    Unsent("the upload is zero with the noise, like any other"): (Kind.ZEROED,),
    Leak(REJECTION, Public("only malformed updates of attackers are rejected")): (Kind.REJECTED,),
    Leak(SCORES, Released("privacy.scores")): (Kind.SCORED,),
    Public("the node draws at random which layers it swaps"): (Kind.SHUFFLED,),
    Leak(BUDGETS, Public("the noise and number of its uploads decide when a client stops")): (Kind.BUDGET_SPENT,),
    Released("noise of clients or server; without noise the ledger counts a bare model"): (Kind.PUBLISHED,),
}
DISCLOSED = {kind: one for kind in Kind for one, kinds in _DISCLOSURES.items() if kind in kinds}
"""Kind of event -> what it tells an adversary that observes it."""

SCORING_DOWN, SCORING_UP = "scoring down", "scoring up"
"""Details of events of the two scoring messages: the models sent to a client, and its scores."""

NO_EPOCH = "no epoch by its deadline"
"""Detail of a dropout: the client had finished no epoch by its deadline, so it has no update to send."""


def epochs_detail(done: int, of: int) -> str:
    """Return the text `detail` of a training stopped after `done` of `of` epochs."""
    return f"{done} of {of} epochs"


def epochs_done(detail: str) -> int | None:
    """Return the epochs done by the `detail` of a training; None: all."""
    return int(detail.split()[0]) if detail else None


class EventsTable(Described):
    """`events.parquet`: one row per event of a run, in the order of `seq`. -1, NaN or empty: the column does not apply
    to this kind of event."""

    time_s: Annotated[Seconds, _WORLD] = about("Virtual time of the event.")
    seq: Annotated[Count, _WORLD] = about("Position of the event in its seed, which also orders events of one time.")
    seed: Annotated[
        Seed, Unsent("live clients draw noise from secrets of their own, unless the ledger flags the seed")
    ] = about("Seed of the run.")
    kind: Annotated[str, Column(pa.dictionary(pa.int8(), pa.string()), ""), Released("see `DISCLOSED`")] = about(
        "Kind of the event."
    )
    task: Annotated[Count, Public("the server gave this number")] = about("Number of the task.", -1)
    client: Annotated[Count, _CHOICE] = about("Number of the client.", -1)
    version: Annotated[Version, _WORLD] = about(
        "Latest version published at the time of the event; for `published`, the version that is published. For "
        "`aggregated`, `flagged` and `rejected`, the version before the one that the buffer makes, so that "
        "`version - base_version` is the staleness of the update.",
        -1,
    )
    base_version: Annotated[Version, _WORLD] = about("Version that the client was sent for the task.", -1)
    staleness: Annotated[Version, _WORLD] = about("Staleness of a judged update.", -1)
    bytes: Annotated[Bytes, Public("the size of the model, or its compression's fixed rate")] = about(
        "Bytes sent over the link, including retransmissions. For `retransmitted`, the bytes sent again. For "
        "`went_offline` and `dropped_out`, the bytes already sent of the message that broke off.",
        -1,
    )
    attempt: Annotated[int, Column(pa.int16(), ""), _WORLD] = about(
        "Number of the transmission, from 1. For a message that arrived or was lost, number of the last transmission.",
        -1,
    )
    weight: Annotated[Number, _VERDICT] = about("Weight of the update in the aggregate.", float("nan"))
    detail: Annotated[str, Column(pa.dictionary(pa.int32(), pa.string()), ""), _VERDICT] = about(
        "Further information, such as the direction of a message (`down`, `up`) or the reason of a decision.", ""
    )


SCHEMA = schema_of(EventsTable)
"""Columns of the event table and their Arrow types, in order."""
