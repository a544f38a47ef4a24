"""The majority test: finds clients whose last updates go against the majority."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.messages import Bools, Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.clusters import separate_lower
from asyncfl.defences.spectral.bank import Bank
from asyncfl.defences.spectral.spectrum import (
    Alignment,
    Embedding,
    alignment_with,
    embed,
    geometric_medians,
    looseness,
    product_std,
)

HUGE = 1e3
"""Multiple of the median norm above which an update is struck and left out before the comparison."""


@dataclass(frozen=True)
class MajorityFinding:
    """Result of the test. Arrays are (clients,); a client without a row is not left out."""

    out: Bools
    """Whether the client's updates are to be left out."""
    struck: Bools
    """Whether the client's last update counts as a strike."""
    against: Bools
    """Whether the client is left out because of its direction."""
    cleared: Bools
    """Whether the client goes along with the majority within its noise."""
    notes: dict[str, float]
    """Numbers about the test, by name, see `Verdict.notes`."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Client -> reason for which it is left out."""
    decided: bool = False
    """Whether the majority is certain for most rows, or has no common direction."""
    clearness: float = 0.0
    """Median of `Alignment.clearness` over the points; 0 without an alignment."""

    def merge_pooled(self, pooled: MajorityFinding) -> MajorityFinding:
        """Return this result merged with a clearer one from the `pooled` updates, of which only clients against the
        majority count: means over time may be off a common line if the majority changes direction."""
        reasons = {int(one): f"pooled {pooled.reasons[int(one)]}" for one in np.flatnonzero(pooled.against)}
        return MajorityFinding(
            self.out | pooled.against,
            self.struck | pooled.against,
            self.against | pooled.against,
            pooled.cleared & ~self.against,
            self.notes | {"pooled": pooled.clearness},
            reasons | self.reasons,
            self.decided or pooled.decided,
            pooled.clearness,
        )


class MajorityTest(Described):
    """The majority test with its settings."""

    memory_versions: Annotated[float, Field(gt=0), MeasuredIn("versions")] = 20.0
    """Number of versions between two updates' base versions after which one has weight 1/e in the other's majority. It
    should exceed the age of the bank's rows: with 6, attackers that answer five times as fast have the freshest rows,
    hence the greater weight although they are the minority, and honest clients are banned."""
    certainty: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 5.0
    """Clearness above which the majority is certain. Clearness is the length of the majority's signal in standard
    deviations of one update's noise along it."""
    suspicion: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 2.0
    """Clearness below which the test abstains. Between this and `certainty` only `direction` counts, beyond the point's
    own noise (`blur`)."""
    direction: Annotated[float, MeasuredIn("share")] = 0.3
    """Updates with a smaller projection on the majority (1: the majority's own) are left out."""
    coherence: Annotated[float, Field(gt=0), MeasuredIn("share")] = 1.0
    """Updates with a larger squared distance from the majority's line, beyond noise, are left out."""
    coherence_strike: Annotated[float, Field(gt=0), MeasuredIn("share")] = 2.5
    """Above this squared distance they are also struck."""
    doubt: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 4.0
    """Standard deviations of noise that are tolerated off the line."""
    blur: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 3.5
    """Standard deviations of a point's own noise that are tolerated along the line. If the majority is certain, this
    only matters for points noisier than the others."""
    acquittal: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 2.0
    """A suspect is cleared if it is within this many standard deviations of its own noise of the majority's
    projection."""
    laggards: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] | None = 5.0
    """A minority with smaller projections on the majority is left out, but not struck, if it is this many standard
    deviations of both groups apart: attackers that stay just above `direction` in order to slow the model down. A
    single group of honest clients, cut in two, is 2.6 apart. null: never."""
    diffuse: Annotated[float, Field(gt=0), MeasuredIn("1")] | None = 0.5
    """Above this looseness (typical squared distance to similar updates, relative to an update's squared length)
    updates are not compared with a common direction, because honest ones have none under label skew. null: they always
    are, which bans nearly every client under Dirichlet 0.5."""
    skewed: Literal["abstain", "root"] = "abstain"
    """Treatment of such updates. `abstain`: only certificates count. `root`: updates that go uphill on the root set are
    left out, and struck if far (see `uphill`); not the default, since it judges single updates by a hundred samples.
    Without a root set both abstain."""

    def judge(self, bank: Bank, n_parameters: int, *, by_root: bool = False) -> MajorityFinding:
        """Return the result of the test of all rows of `bank`. `by_root`: whether the majority is that of the rows that
        go downhill on the root set."""
        present, none = bank.present, np.zeros(len(bank.rows), dtype=bool)

        def per_client(rows: Bools) -> Bools:
            every = none.copy()
            every[present] = rows
            return every

        squares = np.diagonal(bank.gram)[present]
        huge = squares > HUGE**2 * np.median(squares) if len(present) else none[:0]
        if huge.any() and np.median(squares) > 0:
            # Huge rows would dominate the spectrum; the others are judged without them.
            comparable = bank
            for client in present[huge].tolist():
                comparable = comparable.forget(client)
            finding, far = self.judge(comparable, n_parameters, by_root=by_root), per_client(huge)
            reasons = finding.reasons | {int(one): "too long to be compared" for one in present[huge]}
            return replace(finding, out=finding.out | far, struck=finding.struck | far, reasons=reasons)
        if len(present) < 2:
            return MajorityFinding(none, none, none, none, {"rank": 0.0})
        gram = bank.gram[np.ix_(present, present)]
        noise_std = bank.noise_std[present]
        # The spectrum's noise has the mean variance of all rows; rows with more or less differ only in their alignment.
        sigma = float(np.sqrt(np.mean(noise_std**2)))
        noisiness = noise_std / sigma if sigma > 0 else np.ones(len(present))
        embedding = embed(gram, product_std(gram, n_parameters, sigma))
        projected, arrived = bank.projections[present], bank.arrived[present]
        reference = downhill(projected, arrived) if by_root else np.ones(len(present), bool)
        notes = {"rank": 0.0 if embedding is None else float(len(embedding.noise)), "voters": float(reference.sum())}
        if embedding is None:
            return MajorityFinding(none, none, none, none, notes)
        notes["looseness"] = looseness(embedding)
        if self.diffuse is not None and notes["looseness"] > self.diffuse:
            notes["diffuse"] = 1.0
            if self.skewed == "abstain" or not by_root:
                return MajorityFinding(none, none, none, none, notes, decided=True)
            left, far = uphill(projected, arrived)
            reasons = {int(present[row]): f"uphill {projected[row]:.3g}" for row in np.flatnonzero(left)}
            return MajorityFinding(per_client(left), per_client(far), none, none, notes, reasons, decided=True)
        if not reference.any():
            return MajorityFinding(none, none, none, none, notes)
        alignment = self.alignment(embedding, bank.base_versions[present], reference, noisiness)
        noise = (self.doubt * alignment.doubt) ** 2
        certain, clear = alignment.clearness > self.certainty, alignment.clearness > self.suspicion
        against = clear & (alignment.along < np.minimum(self.direction, 1 - self.blur * alignment.blur))
        along_with = clear & (alignment.along > np.maximum(self.direction, 1 - self.acquittal * alignment.blur))
        apart = certain & (alignment.off > self.coherence + noise)
        gross = certain & (alignment.off > self.coherence_strike + noise)
        behind = certain & (self.laggards is not None and lagging(alignment.along, self.laggards))
        reasons = {}
        for row in np.flatnonzero(against | apart | behind):
            reason = "direction" if against[row] else "coherence" if apart[row] else "laggard"
            value = alignment.off[row] if reason == "coherence" else alignment.along[row]
            reasons[int(present[row])] = f"{reason} {value:.2f}"
        return MajorityFinding(
            per_client(against | apart | behind),
            per_client(against | gross),
            per_client(against),
            per_client(along_with),
            notes | {"diffuse": 0.0, "certain": float(certain.mean())},
            reasons,
            decided=bool(2 * certain.sum() >= len(present)),
            clearness=float(np.median(alignment.clearness)),
        )

    def alignment(
        self, embedding: Embedding, base_versions: Ints, reference: Bools, noisiness: Floats | float = 1.0
    ) -> Alignment:
        """Return the position of each point relative to the majority: the geometric median of the `reference` points
        (n,), at least one, weighed by how near their `base_versions` (n,) are; `noisiness`: see `alignment_with`."""
        versions, which = np.unique(base_versions, return_inverse=True)
        gaps = np.abs(base_versions - versions[:, None]).astype(np.float64)
        nearest = np.where(reference, gaps, np.inf).min(axis=1, keepdims=True)
        # Only ratios of weights matter; relative to the nearest reference row their sum cannot underflow to 0.
        weights = np.where(reference, np.exp((nearest - gaps) / self.memory_versions), 0.0)
        return alignment_with(embedding, geometric_medians(embedding.points, weights)[which], noisiness)


def lagging(along: Floats, apart: float) -> Bools:
    """Return whether each point is in a separate minority with smaller projections `along` (n,) on the majority, see
    `separate_lower`. Smaller shortfalls do no harm."""
    lower = separate_lower(along, apart)
    return lower & bool(2 * lower.sum() < len(along))


# Without a root set the majority of updates is assumed to be honest, which requires that fewer than half of the clients
# attack. With one, the majority is that of the updates that go downhill on it; a hundred samples are too few to judge
# single updates. Under label skew clearly uphill updates do not come from any honest mixture of labels.


def projections(deltas: Vector, gradient: Vector) -> Floats:
    """Return the projections (n,) of `deltas` (n, d) on the root set's descent direction -g / |g|, g the `gradient`
    (d,); 0 if g is 0."""
    direction = gradient.astype(np.float64)
    length = float(np.linalg.norm(direction))
    return np.asarray(-(deltas @ direction) / length) if length else np.zeros(len(deltas))


def _usual(along: Floats, arrived: Ints) -> float:
    """Return the upper quantile (0.8) of the projections of the newest 40 updates; `arrived`: their running numbers."""
    return float(np.quantile(along[np.argsort(-arrived, kind="stable")[:40]], 0.8))


def downhill(along: Floats, arrived: Ints) -> Bools:
    """Return whether each projection is at least half of the usual one; all False if that is not positive."""
    bar = 0.5 * _usual(along, arrived)
    return (along >= bar) & (bar > 0)


def uphill(along: Floats, arrived: Ints) -> tuple[Bools, Bools]:
    """Return whether each projection is negative, and whether it is below minus the usual one, both (n,) bool; all
    False if the usual one is not positive. On MNIST under Dirichlet 0.5 with 100 root samples one in twenty honest
    updates goes uphill, hardly any far; three quarters of label-flipped ones go uphill; nearly all sign-flipped ones
    do, half of them far."""
    usual = _usual(along, arrived)
    return (along < 0) & (usual > 0), (along < -usual) & (usual > 0)
