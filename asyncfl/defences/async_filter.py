"""AsyncFilter: among updates that were computed from the same version, those farthest from their mean are left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.clusters import k_means
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.update_filters import filter_verdict
from asyncfl.quantities import MeasuredIn


@dataclass(frozen=True)
class AsyncFilterState:
    """What the filter remembers of each version that updates were computed from."""

    means: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    """Version -> mean of the updates from it so far (n_parameters,)."""
    counts: dict[int, int] = field(default_factory=dict)
    """Version -> number of them."""


class AsyncFilter(Detector):
    """Leaves out the highest of three clusters of distances, each update's from the running mean of its version.

    Updates of equal staleness make a group; m is the mean of all updates from that version, those of earlier buffers
    included, and the score of an update is |x - m| over the root mean square of its group's. Scores are clustered by
    3-means. Groups of fewer than `smallest_group` cannot be judged and are accepted, and so is everybody where there
    are not three different scores. It bans nobody.

    Use it where buffers are large against the spread of staleness. It leaves somebody out of every buffer that it can
    judge, honest or not. Readings: `clusters: buffer` compares scores over groups, which is what they are normalised
    for; the authors' program clusters each `group` by itself. Source: Kang & Li 2024; for the size of
    groups and the fate of the middle cluster, which is aggregated, the authors' program.
    """

    kind: Literal["async_filter"] = "async_filter"
    clusters: Literal["buffer", "group"] = "buffer"
    """Whether the scores of all groups are clustered together, or each group's by themselves."""
    smallest_group: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 3
    """Updates of equal staleness below which a group is not judged, >= 2."""
    memory_versions: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 20
    """Versions for which means are kept; an older update is compared with those of its own buffer."""

    @property
    def abstains(self) -> bool:
        """Of updates in groups that are too small."""
        return True

    def start(self, context: DefenceContext, random: np.random.Generator) -> AsyncFilterState:
        """Nothing is known of any version."""
        return AsyncFilterState()

    def judge(
        self, state: AsyncFilterState, buffer: Buffer, scores: NDArray[np.float64] | None
    ) -> tuple[Verdict, AsyncFilterState]:
        means, counts = dict(state.means), dict(state.counts)
        score = np.full(len(buffer), np.nan)
        groups = []
        for version in np.unique(buffer.base_versions).tolist():
            rows = np.flatnonzero(buffer.base_versions == version)
            updates = buffer.deltas[rows].astype(np.float64)
            before, number = means.get(version, 0.0), counts.get(version, 0)
            counts[version] = number + len(rows)
            means[version] = (number * before + updates.sum(axis=0)) / counts[version]
            if len(rows) < self.smallest_group:
                continue
            away = np.sqrt([float(row @ row) for row in updates - means[version]])
            typical = float(np.sqrt(np.mean(away**2)))
            score[rows] = away / typical if typical else 0.0
            groups.append(rows)
        together = [np.concatenate(groups)] if groups and self.clusters == "buffer" else groups
        flagged = np.zeros(len(buffer), dtype=bool)
        for rows in together:
            cluster = k_means(score[rows], 3)
            flagged[rows] = cluster == 2
        details = [f"distance {s:.3g} of its group's" if f else "" for s, f in zip(score, flagged, strict=True)]
        oldest = buffer.version - self.memory_versions
        kept = [version for version in means if version > oldest]
        following = replace(state, means={v: means[v] for v in kept}, counts={v: counts[v] for v in kept})
        result = replace(filter_verdict(flagged, details), unjudged=np.isnan(score))
        return result, following
