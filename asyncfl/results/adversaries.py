"""Views of the adversaries of a seed: which uploads and models each of them holds, and since when, by the tasks.

| adversary | holds | trusts |
|---|---|---|
| `eavesdropper` | messages that it overheard, whole or in part | server, clients |
| `server` | uploads that reached it, whole or in part, all models, its own noise | clients, links |
| `both` | what either of these holds | clients |
| `curious` | what the coalition was sent and made itself (`privacy.curious`) | server, links, other clients |
| `public_last` | the last model | server, clients, links |
| `public` | all models | server, clients, links |

With secure aggregation nobody but its client holds an upload: server and eavesdropper see masked ones, and the server
the sum of each buffer, which it publishes with its own noise. `colluders` of the clients may tell it what they know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.base.disclosure import SCORES
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable
from asyncfl.privacy.release import Release
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import CAUGHT, SCORING_UP
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.score_requests import TracedScoreRequest
from asyncfl.protocol.secure_aggregation import SecureAggregation
from asyncfl.protocol.tasks import Tasks
from asyncfl.simulation.phases import Way
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

WAYS: tuple[Way, Way] = ("down", "up")
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
    tasks: Tasks,
    requests: Sequence[TracedScoreRequest],
    published: Times,
    sent: UploadTable,
    moment: Moment,
    curious: frozenset[int],
    world: World,
    answers: Sequence[ScoreRelease],
    rejected: Sequence[RejectedUpdate],
    leaks: Collection[str] = (),
    secure: SecureAggregation | None = None,
) -> list[AdversaryView]:
    """Return the view of each adversary of one seed, including that of the coalition `curious` if it has members.

    `requests`: for scores. `published`: version -> virtual time of its publication. `sent`: uploads ordered by task.
    `world`: its links have the sizes of packets. `answers`: all scores that clients sent; `rejected`: honest updates
    that were rejected; `leaks`: flags of what the message of each upload leaks. `secure`: secure aggregation of the
    uploads, None without it.
    """
    up_bytes = world.uplink.mtu_bytes
    held = holdings(tasks, published, packet_bytes=up_bytes)
    if secure is not None:
        # Masked updates tell nothing; of their sums the server makes the models. Answers of a buffer that failed may
        # tell of its sum all the same, and that tells of an update no more than the update itself.
        failed = set(tasks.task[tasks.with_fate(Fate.BELOW_THRESHOLD)].tolist() if secure.answers_tell else ())
        told = {task: time_s for task, time_s in held["server"].uploads.items() if task in failed}
        held = {
            adversary: one._replace(uploads={} if adversary == "eavesdropper" else told)
            for adversary, one in held.items()
        }
    colluders = 0 if secure is None else secure.colluders
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
        every.append(("curious", *_coalition_holdings(tasks, requests, curious, world), {}))
    every += [("public_last", {}, {last: published.get(last, 0.0)}, {}), ("public", {}, published, {})]
    uploaded = frozenset(tasks.client[uploads_held(tasks, up_bytes)].tolist()) if leaks else frozenset[int]()

    def view_of(adversary: str, uploads: Times, versions: Times, scores: Times) -> AdversaryView:
        """Return the view of an adversary that holds `scores` (index in `answers` -> time). The other `answers` concern
        it through the versions that they influenced."""
        got = np.full(len(sent.task), NEVER, dtype=np.int64)
        if uploads:
            got[np.searchsorted(sent.task, list(uploads))] = [*map(moment, uploads.values())]
        shown = np.full(last + 1, NEVER, dtype=np.int64)
        shown[list(versions)] = [*map(moment, versions.values())]
        members = curious if adversary == "curious" else frozenset[int]()
        is_server = adversary in ("server", "both")
        view = AdversaryView(adversary, got, shown, is_server, members, colluders=colluders if is_server else 0)
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


def _coalition_holdings(
    tasks: Tasks, requests: Sequence[TracedScoreRequest], curious: frozenset[int], world: World
) -> AdversaryHoldings:
    mine = np.isin(tasks.client, sorted(curious))
    down, up = (received_s(tasks, way, packet_bytes_of(world, way)) for way in WAYS)
    versions = _earliest_of(tasks.base_version[mine], down[mine])
    uploads = _earliest_of(tasks.task[mine], np.fmin(up, _overheard_s(tasks, "up", in_part=True))[mine])
    judged = tasks.with_fate(Fate.AGGREGATED, Fate.FLAGGED)
    for request in requests:
        if request.client in curious:
            # The events do not tell whether its download was complete: assume that it has the models.
            for task in tasks.task[judged & (tasks.making == request.making)].tolist():
                uploads[task] = min(uploads.get(task, np.inf), request.ended_s)
    return AdversaryHoldings(uploads, versions)


def holdings(
    tasks: Tasks, published: Mapping[int, float], *, packet_bytes: int | None = None
) -> dict[str, AdversaryHoldings]:
    """Return the holdings of `eavesdropper` (overheard messages), `server` (arrived uploads and its models) and `both`.

    `published`: version -> virtual time of its publication. `packet_bytes`: the largest packet of an upload, where
    messages overheard or received in part count too: a bound on what they reveal, as a part of a release with noise on
    each coordinate reveals at most as much as all of it. None: whole messages only, as an attack needs them.
    """
    in_part = packet_bytes is not None
    tapped = AdversaryHoldings(
        _earliest_of(tasks.task, _overheard_s(tasks, "up", in_part=in_part)),
        _earliest_of(tasks.base_version, _overheard_s(tasks, "down", in_part=in_part)),
    )
    arrived_s = tasks.uploaded_s if packet_bytes is None else received_s(tasks, "up", packet_bytes)
    server = AdversaryHoldings(_earliest_of(tasks.task, arrived_s), dict(published))
    both = AdversaryHoldings(_earliest(tapped.uploads, server.uploads), _earliest(tapped.models, server.models))
    return {"eavesdropper": tapped, "server": server, "both": both}


def received_s(tasks: Tasks, way: Way, packet_bytes: int) -> Floats:
    """Return since when the receiver holds the message of each task, whole or in part; NaN: never. (tasks,)

    A message of several packets counts if it was lost or still in transfer when the run ended, since some may have
    arrived, and so does a message that broke off after a packet had left. `packet_bytes`: the largest packet.
    """
    is_up = way == "up"
    # A client sends nothing but its update after its upload has begun.
    sends = np.isnan(tasks.upload_started_s) != is_up
    begun_s = tasks.upload_started_s if is_up else tasks.download_started_s
    is_long = (tasks.upload_bytes if is_up else tasks.download_bytes) > packet_bytes
    sent = (tasks.bytes_up if is_up else tasks.bytes_down) > 0
    left = ~np.isnan(tasks.left_s)
    was_lost = tasks.with_outcome("lost_up" if is_up else "lost_down")
    broke_off = left & sends & sent & ~tasks.with_outcome("uploaded", "lost_down", "lost_up")
    going_on = is_long & (begun_s < tasks.end_s) & ~left & sends
    found = np.where(broke_off | (was_lost & is_long & sent), tasks.left_s, np.where(going_on, begun_s, np.nan))
    arrived_s = tasks.uploaded_s if is_up else tasks.downloaded_s
    return np.where(np.isnan(arrived_s), found, arrived_s)


def packet_bytes_of(world: World, way: Way) -> int:
    """Return the size of the largest packet in one direction."""
    return (world.uplink if way == "up" else world.downlink).mtu_bytes


def _overheard_s(tasks: Tasks, way: Way, *, in_part: bool) -> Floats:
    """Return since when the eavesdropper holds the model (`down`) or the update of each task; NaN: never. (tasks,)

    An update is also overheard on its way to a client that scores it. `in_part`: a part of the message counts.
    """
    whole = (tasks.overheard_down_s,) if way == "down" else (tasks.overheard_up_s, tasks.overheard_scoring_s)
    parts = (
        (tasks.overheard_down_in_part_s,)
        if way == "down"
        else (tasks.overheard_up_in_part_s, tasks.overheard_scoring_in_part_s)
    )
    return np.asarray(np.fmin.reduce([*whole, *(parts if in_part else ())]))


def uploads_held(tasks: Tasks, packet_bytes: int) -> Bools:
    """Return whether the server or the eavesdropper holds the update of each task, whole or in part. (tasks,)

    `packet_bytes`: as in `received_s`.
    """
    held_s = np.fmin(received_s(tasks, "up", packet_bytes), _overheard_s(tasks, "up", in_part=True))
    return ~np.isnan(held_s)


def overheard_answers(events: pa.Table) -> pa.Table:
    """Return the events of scores that were overheard, whole or in part."""
    caught = select(events, kinds=CAUGHT)
    return caught.filter(pc.equal(caught["detail"].cast(pa.string()), SCORING_UP))


def _earliest_of(numbers: Ints, times_s: Floats) -> Times:
    """Return number -> its earliest time that is not NaN, in the order of the times."""
    found: Times = {}
    known = np.flatnonzero(~np.isnan(times_s))
    order = known[np.argsort(times_s[known], kind="stable")]
    for number, time_s in zip(numbers[order].tolist(), times_s[order].tolist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    numbers = first.keys() | second.keys()
    return {number: min(first.get(number, math.inf), second.get(number, math.inf)) for number in numbers}
