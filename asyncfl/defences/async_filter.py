"""AsyncFilter: among updates trained from the same version, leaves out those farthest from their mean."""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.clusters import k_means
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.update_filters import filter_verdict


@dataclass(frozen=True)
class AsyncFilterState:
    """State of the filter: statistics per model version."""

    means: dict[int, Floats] = field(default_factory=dict)
    """Version -> mean (n_parameters,) of all updates trained from it so far."""
    counts: dict[int, int] = field(default_factory=dict)  # version -> number of these updates


class AsyncFilter(Detector):
    """Leaves out the highest of three clusters of distances between updates and the running mean of their version.

    Updates of equal staleness form a group. m is the mean of all updates from that version, including earlier buffers;
    the score of an update is |x - m| over the root mean square of the group's distances. Scores are clustered by
    3-means. Groups with fewer than `smallest_group` updates are accepted unjudged. All updates are accepted if there
    are fewer than three distinct scores. The filter bans no client.

    Use it if buffers are large compared with the spread of staleness. It leaves out an update of every buffer that it
    can judge, honest or not. `clusters: buffer` compares scores across groups, which the normalisation is made for; the
    authors' program clusters each `group` separately. Source: Kang & Li 2024; the authors' program for the size of
    groups and for accepting the middle cluster.
    """

    kind: Literal["async_filter"] = "async_filter"
    abstains: ClassVar[bool] = True
    clusters: Literal["buffer", "group"] = "buffer"
    """Whether the scores of all groups are clustered together, or those of each group separately."""
    smallest_group: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 3
    """Smallest number of updates of equal staleness that is judged, >= 2."""
    memory_versions: Annotated[int, Field(ge=1), MeasuredIn("versions")] = 20
    """Versions for which means are kept; older updates are compared with those of their own buffer."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> AsyncFilterState:
        return AsyncFilterState()

    def judge(self, state: AsyncFilterState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, AsyncFilterState]:
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
            flagged[rows] = k_means(score[rows], 3) == 2
        verdict = filter_verdict(flagged, [f"distance {distance:.3g} of its group's" for distance in score])
        kept = [version for version in means if version > buffer.version - self.memory_versions]
        following = AsyncFilterState({v: means[v] for v in kept}, {v: counts[v] for v in kept})
        return replace(verdict, unjudged=np.isnan(score)), following
