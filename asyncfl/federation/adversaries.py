"""Views of the adversaries of a seed: which uploads and models each of them holds, according to the events.

| adversary | holds | trusts |
|---|---|---|
| `eavesdropper` | messages that it overheard, whole or in part | server, clients |
| `server` | uploads that reached it, all models, its own noise | clients, links |
| `both` | what either of these holds | clients |
| `curious` | what the coalition was sent and made itself (`privacy.curious`) | server, links, other clients |
| `public_last` | the last model | server, clients, links |
| `public` | all models | server, clients, links |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.federation.adversary_holdings import Times, first_times, holdings, overheard
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable
from asyncfl.privacy.release import Release
from asyncfl.trace import Kind
from asyncfl.trace.events import CAUGHT, SCORING_UP
from asyncfl.trace.query import select
from asyncfl.trace.scoring_requests import scoring_requests_of

TRUSTS = {
    "eavesdropper": "server, clients",
    "server": "clients, links",
    "both": "clients",
    "curious": "server, links, other clients",
    "public_last": "server, clients, links",
    "public": "server, clients, links",
}
"""Adversary -> parties that a guarantee against it trusts to follow the protocol and keep secrets."""

Moment = Callable[[float], int]
"""Function virtual time -> number of the first version published at or after it; the number of versions if none was."""


@dataclass(frozen=True)
class ScoreRelease:
    """Scores that a client sent."""

    client: int
    making: int
    """Version that was being made when the detector asked for them."""
    time_s: float
    release: Release


@dataclass(frozen=True)
class RejectedUpdate:
    """An honest update that was rejected because it was not finite."""

    task: int
    client: int
    version: int
    """Version that it would have entered."""


class AdversaryViews:
    """Views of the adversaries of one seed, from its events."""

    def __init__(
        self,
        events: pa.Table,
        rounds: Iterable[Mapping[str, float]],
        sent: UploadTable,
        moment: Moment,
        curious: frozenset[int],
    ) -> None:
        """`sent`: uploads ordered by task; `moment`: see `Moment`; `curious`: clients of the coalition."""
        self.events = events
        self.curious = curious
        self._sent = sent
        self._moment = moment
        self._published = {int(row["version"]): float(row["time_s"]) for row in rounds}

    def views(self, answers: Iterable[ScoreRelease], rejected: Iterable[RejectedUpdate]) -> list[AdversaryView]:
        """Return the view of each adversary, including that of the coalition if there is one.

        `answers`: all scores that clients sent; `rejected`: honest updates that were rejected.
        """
        answers, rejected = list(answers), list(rejected)
        held = holdings(self.events, self._published, in_part=True)
        scored = overheard(self.events, SCORING_UP, tasks=False, in_part=True)
        overheard_at = {(row["client"], row["time_s"]) for row in scored.to_pylist()}
        # The eavesdropper has scores before they arrive: keep the answers that arrived and that it overheard.
        scores = [one for one in answers if any(c == one.client and t <= one.time_s for c, t in overheard_at)]
        last = max(self._published, default=0)

        def view(
            adversary: str, uploads: Times, versions: Times, scores: list[ScoreRelease], noise: bool = False
        ) -> AdversaryView:
            return self._view(adversary, uploads, versions, scores, answers, rejected, noise)

        found = [
            view("eavesdropper", *held["eavesdropper"], scores),
            view("server", *held["server"], answers, True),
            view("both", *held["both"], answers, True),
        ]
        if self.curious:
            found.append(view("curious", *self._of_coalition(), [one for one in answers if one.client in self.curious]))
        found.append(view("public_last", {}, {last: self._published.get(last, 0.0)}, []))
        found.append(view("public", {}, self._published, []))
        return found

    def _view(
        self,
        adversary: str,
        uploads: Times,
        versions: Times,
        scores: Sequence[ScoreRelease],
        answers: Sequence[ScoreRelease],
        rejected: Sequence[RejectedUpdate],
        noise: bool,
    ) -> AdversaryView:
        """Return the view of an adversary that holds `scores`. The other `answers` concern it through the
        versions that they influenced."""
        got = np.full(len(self._sent.task), NEVER, dtype=np.int64)
        times = [(task, time_s) for task, time_s in uploads.items()]
        if times:
            at = np.searchsorted(self._sent.task, [task for task, _ in times])
            got[at] = [self._moment(time_s) for _, time_s in times]
        held = np.full(max(self._published, default=0) + 1, NEVER, dtype=np.int64)
        for version, time_s in versions.items():
            held[version] = self._moment(time_s)
        members = self.curious if adversary == "curious" else frozenset[int]()
        view, having = AdversaryView(adversary, got, held, noise, members), set(scores)
        granted = view.granted(self._sent)

        def known(version: int, seen_s: float | None) -> int:
            shown = int(granted[version]) if version < len(granted) else NEVER
            return shown if seen_s is None else min(self._moment(seen_s), shown)

        bare = Release("gaussian", 0.0, 1.0, 1, "none", "none", 0.0, 0.0)
        everything = [
            *((one.client, known(one.making, one.time_s if one in having else None), one.release) for one in answers),
            *((one.client, known(one.version, uploads.get(one.task)), bare) for one in rejected),
        ]
        further = [row for row in everything if row[0] not in members and row[1] < NEVER]
        return replace(view, further=tuple(sorted(further, key=lambda row: row[1])))

    def _of_coalition(self) -> tuple[Times, Times]:
        """Return uploads and versions of the coalition: its own tasks, the models it was sent, and the buffers that it
        scored."""
        mine = pa.array(sorted(self.curious), pa.int64())
        down = select(self.events, kinds=[Kind.DOWNLOADED])
        versions = first_times(down.filter(pc.is_in(down["client"], mine)), "base_version")
        sent = select(self.events, kinds=[Kind.UPLOADED, *CAUGHT])
        sent = sent.filter(pc.is_in(sent["client"], mine)).filter(pc.field("task") >= 0)
        uploads = first_times(sent.filter(pc.field("detail").cast(pa.string()) != "down"), "task")
        buffers: dict[int, list[int]] = {}
        judged = select(self.events, kinds=[Kind.AGGREGATED, Kind.FLAGGED])
        for task, version in zip(judged["task"].to_pylist(), judged["version"].to_pylist(), strict=True):
            buffers.setdefault(version + 1, []).append(task)
        for request in scoring_requests_of(self.events):
            if request.client in self.curious:
                # The events do not tell whether its download was complete: assume that it has the models.
                for task in buffers.get(request.making, ()):
                    uploads[task] = min(uploads.get(task, np.inf), request.ended_s)
        return uploads, versions
