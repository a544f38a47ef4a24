"""Views of the adversaries of a seed: which uploads and models each of them holds, and since when, from the events.

| adversary | holds | trusts |
|---|---|---|
| `eavesdropper` | messages that it overheard, whole or in part | server, clients |
| `server` | uploads that reached it, whole or in part, all models, its own noise | clients, links |
| `both` | what either of these holds | clients |
| `curious` | what the coalition was sent and made itself (`privacy.curious`) | server, links, other clients |
| `public_last` | the last model | server, clients, links |
| `public` | all models | server, clients, links |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.disclosure import SCORES
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable
from asyncfl.privacy.release import Release
from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_DOWN
from asyncfl.trace.query import select
from asyncfl.trace.score_requests import score_requests_of
from asyncfl.world import World

TRUSTS = {
    "eavesdropper": "server, clients",
    "server": "clients, links",
    "both": "clients",
    "curious": "server, links, other clients",
    "public_last": "server, clients, links",
    "public": "server, clients, links",
}
"""Adversary -> parties that a guarantee against it trusts to follow the protocol and keep secrets."""

Times = dict[int, float]
"""Task or version -> virtual time since when an adversary holds it."""
Moment = Callable[[float], int]
"""Function virtual time -> number of the first version published at or after it; the number of versions if none was."""
BARE = Release("gaussian", 0.0, 1.0, 1, 0.0)
"""Release of a value that depends on the data of a client, without noise."""


class AdversaryHoldings(NamedTuple):
    """Uploads and models that one adversary holds."""

    uploads: Times
    models: Times


@dataclass(frozen=True)
class ScoreRelease:
    """Scores that left a client, whether or not they reached the server."""

    client: int
    release: Release  # with `count` 0 if the scores have no noise
    making: int | None  # version whose updates the detector judged by them; None: by these scores none
    arrived_s: float | None  # when the server received them; None: never
    overheard_s: float | None = None  # when the eavesdropper caught them; None: never


class RejectedUpdate(NamedTuple):
    """An honest update that was rejected because it was not finite."""

    task: int
    client: int
    version: int  # version that it would have entered


def adversary_views(
    events: pa.Table,
    published: Times,
    sent: UploadTable,
    moment: Moment,
    curious: frozenset[int],
    world: World,
    answers: Sequence[ScoreRelease],
    rejected: Sequence[RejectedUpdate],
    leaks: Collection[str] = (),
) -> list[AdversaryView]:
    """Return the view of each adversary of one seed, including that of the coalition `curious` if it has members.

    `published`: version -> virtual time of its publication. `sent`: uploads ordered by task. `world`: its links have
    the sizes of packets. `answers`: all scores that clients sent; `rejected`: honest updates that were rejected;
    `leaks`: flags of what the message of each upload leaks.
    """
    up_bytes = world.uplink.mtu_bytes
    held = holdings(events, published, packet_bytes=up_bytes)
    last = max(published, default=0)
    arrived = {place: one.arrived_s for place, one in enumerate(answers) if one.arrived_s is not None}
    caught = {place: one.overheard_s for place, one in enumerate(answers) if one.overheard_s is not None}
    every: list[tuple[str, Times, Times, Times]] = [
        ("eavesdropper", *held["eavesdropper"], caught),
        ("server", *held["server"], arrived),
        ("both", *held["both"], _earliest(arrived, caught)),
    ]
    if curious:
        # Members know their own scores, but have no rows.
        every.append(("curious", *_coalition_holdings(events, curious, world), {}))
    every += [("public_last", {}, {last: published.get(last, 0.0)}, {}), ("public", {}, published, {})]
    uploaded = frozenset(sent_uploads(events, up_bytes)["client"].to_pylist()) if leaks else frozenset[int]()

    def view_of(adversary: str, uploads: Times, versions: Times, scores: Times) -> AdversaryView:
        """Return the view of an adversary that holds `scores` (index in `answers` -> time). The other `answers` concern
        it through the versions that they influenced."""
        got = np.full(len(sent.task), NEVER, dtype=np.int64)
        if uploads:
            got[np.searchsorted(sent.task, list(uploads))] = [*map(moment, uploads.values())]
        shown = np.full(last + 1, NEVER, dtype=np.int64)
        shown[list(versions)] = [*map(moment, versions.values())]
        members = curious if adversary == "curious" else frozenset[int]()
        view = AdversaryView(adversary, got, shown, adversary in ("server", "both"), members)
        granted = view.granted(sent)

        def known(version: int | None, seen_s: float | None) -> int:
            influenced = int(granted[version]) if version is not None and version < len(granted) else NEVER
            return influenced if seen_s is None else min(moment(seen_s), influenced)

        at = [known(one.making, scores.get(place)) for place, one in enumerate(answers)]
        told = got < NEVER if leaks else np.zeros(len(got), dtype=bool)
        everything = [
            # What decisions reveal of scores without noise is flagged, but not counted.
            *(
                (one.client, when, BARE if place in scores and not one.release.count else one.release)
                for place, (one, when) in enumerate(zip(answers, at, strict=True))
            ),
            *((one.client, known(one.version, uploads.get(one.task)), BARE) for one in rejected),
            *zip(sent.client[told].tolist(), got[told].tolist(), repeat(BARE)),
        ]
        further = [row for row in everything if row[0] not in members and row[1] < NEVER]
        view = replace(view, further=tuple(sorted(further, key=lambda row: row[1])))
        scored = [one for one, when in zip(answers, at, strict=True) if when < NEVER]
        seen = {SCORES: frozenset(one.client for one in scored if not one.release.count)}
        if view.holds_any:
            # An adversary that observes a client at a task knows that it was selected, and which others were.
            seen |= dict.fromkeys(leaks, uploaded)
        return replace(view, leaks=seen)

    return [view_of(*one) for one in every]


def _coalition_holdings(events: pa.Table, curious: frozenset[int], world: World) -> AdversaryHoldings:
    mine = pa.array(sorted(curious), pa.int64())
    down = received(events, "down", world.downlink.mtu_bytes)
    versions = first_times(down.filter(pc.is_in(down["client"], mine)), "base_version")
    sent = sent_uploads(events, world.uplink.mtu_bytes)
    uploads = first_times(sent.filter(pc.is_in(sent["client"], mine)), "task")
    buffers: dict[int, list[int]] = {}
    judged = select(events, kinds=[Kind.AGGREGATED, Kind.FLAGGED])
    for task, version in zip(judged["task"].to_pylist(), judged["version"].to_pylist(), strict=True):
        buffers.setdefault(version + 1, []).append(task)
    for request in score_requests_of(events):
        if request.client in curious:
            # The events do not tell whether its download was complete: assume that it has the models.
            for task in buffers.get(request.making, ()):
                uploads[task] = min(uploads.get(task, np.inf), request.ended_s)
    return AdversaryHoldings(uploads, versions)


def holdings(
    events: pa.Table, published: Mapping[int, float], *, packet_bytes: int | None = None
) -> dict[str, AdversaryHoldings]:
    """Return the holdings of `eavesdropper` (overheard messages), `server` (arrived uploads and its models) and `both`.

    `published`: version -> virtual time of its publication. `packet_bytes`: the largest packet of an upload, where
    messages overheard or received in part count too: a bound on what they reveal, as a part of a release with noise on
    each coordinate reveals at most as much as all of it. None: whole messages only, as an attack needs them.
    """
    in_part = packet_bytes is not None
    tapped = AdversaryHoldings(
        first_times(overheard(events, "up", SCORING_DOWN, in_part=in_part), "task"),
        first_times(overheard(events, "down", in_part=in_part), "base_version"),
    )
    arrived = select(events, kinds=[Kind.UPLOADED]) if packet_bytes is None else received(events, "up", packet_bytes)
    server = AdversaryHoldings(first_times(arrived, "task"), dict(published))
    both = AdversaryHoldings(_earliest(tapped.uploads, server.uploads), _earliest(tapped.models, server.models))
    return {"eavesdropper": tapped, "server": server, "both": both}


def received(events: pa.Table, way: Literal["down", "up"], packet_bytes: int) -> pa.Table:
    """Return the events after which the receiver holds a message of a task, whole or in part.

    A message of several packets counts if it was lost or still in transfer when the run ended, since some may have
    arrived, and so does a message that broke off after a packet had left. `packet_bytes`: the largest packet.
    """
    whole = Kind.UPLOADED if way == "up" else Kind.DOWNLOADED
    uploads = select(events, kinds=[Kind.UPLOAD_STARTED])
    begun = uploads if way == "up" else select(events, kinds=[Kind.DOWNLOAD_STARTED])
    long = begun.filter(pc.field("bytes") > packet_bytes)
    ends = select(events, kinds=[whole, Kind.LOST, Kind.WENT_OFFLINE, Kind.DROPPED_OUT])
    kind, bytes_left = ends["kind"].cast(pa.string()), pc.greater(ends["bytes"], 0)
    # A client sends nothing but its update after its upload has begun.
    this_way = pc.equal(pc.is_in(ends["task"], uploads["task"]), way == "up")
    lost_whole = pc.and_(pc.equal(kind, Kind.LOST), pc.invert(pc.is_in(ends["task"], long["task"])))
    in_part = pc.and_(pc.and_(this_way, bytes_left), pc.invert(lost_whole))
    going_on = pc.less(long["time_s"], pc.max(events["time_s"]))
    in_transfer = long.filter(pc.and_(going_on, pc.invert(pc.is_in(long["task"], ends["task"]))))
    return pa.concat_tables([ends.filter(pc.or_(pc.equal(kind, whole), in_part)), in_transfer])


def overheard(events: pa.Table, *ways: str, tasks: bool = True, in_part: bool = False) -> pa.Table:
    """Return the events of overheard messages.

    `ways`: `down`, `up`, or names of messages of requests for scores. `tasks`: only events that belong to a task.
    `in_part`: also those of messages overheard in part.
    """
    caught = select(events, kinds=CAUGHT if in_part else [Kind.OVERHEARD])
    if tasks:
        caught = caught.filter(pc.field("task") >= 0)
    return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))


def sent_uploads(events: pa.Table, packet_bytes: int) -> pa.Table:
    """Return the events after which the server or the eavesdropper holds an upload, whole or in part. `packet_bytes`:
    as in `received`."""
    caught = overheard(events, "up", SCORING_DOWN, in_part=True)
    return pa.concat_tables([received(events, "up", packet_bytes), caught]).sort_by("seq")


def first_times(events: pa.Table, column: str) -> Times:
    """Return the time of the first event with each number in `column`."""
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
