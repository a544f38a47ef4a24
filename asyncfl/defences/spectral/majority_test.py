"""The majority test: finds clients whose last updates go against the majority.

Without a root set the majority of updates is assumed to be honest, which requires that fewer than half of the clients
attack. With one, the majority is that of the updates that go downhill on it; a hundred samples are too few to judge
single updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
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

HUGE = 1e3  # multiple of the median norm above which an update is struck and left out before the comparison


@dataclass(frozen=True)
class MajorityFinding:
    """Result of the test. Arrays are (clients,); a client without a row is not left out."""

    out: Bools  # whether the client's updates are to be left out
    struck: Bools  # whether the client's last update counts as a strike
    against: Bools  # whether the client is left out because of its direction
    cleared: Bools  # whether the client goes along with the majority within its noise
    notes: dict[str, float]  # numbers about the test, by name, see `Verdict.notes`
    reasons: dict[int, str] = field(default_factory=dict)  # client -> reason for which it is left out
    decided: bool = False  # whether the majority is certain for most rows, or has no common direction
    clearness: float = 0.0  # median of `Alignment.clearness` over the points; 0 without an alignment

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


MEMORY_VERSIONS = 20.0
"""Versions between two updates' base versions after which one has weight 1/e in the other's majority. It exceeds the
age of the bank's rows: with 6, attackers that answer five times as fast have the freshest rows, hence the greater
weight although they are the minority, and honest clients are banned."""
CERTAINTY = 5.0  # clearness above which the majority is certain, see `Alignment.clearness`
SUSPICION = 2.0
"""Clearness below which the test abstains. Between this and `CERTAINTY` only `DIRECTION` counts, beyond the point's own
noise (`BLUR`)."""
DIRECTION = 0.3  # updates with a smaller projection on the majority (1: the majority's own) are left out
COHERENCE, COHERENCE_STRIKE = 1.0, 2.5
"""Squared distances from the majority's line, beyond noise, above which updates are left out, and struck."""
DOUBT = 4.0  # standard deviations of noise that are tolerated off the line
BLUR = 3.5
"""Standard deviations of a point's own noise that are tolerated along the line. If the majority is certain, this only
matters for points noisier than the others."""
ACQUITTAL = 2.0
"""A suspect is cleared within this many standard deviations of its own noise of the majority's projection."""
LAGGARDS = 5.0
"""A minority with smaller projections is left out, but not struck, if it is this many standard deviations of both
groups apart: attackers that stay just above `DIRECTION` in order to slow the model down. A single group, cut in two, is
2.6 apart."""
DIFFUSE = 0.5
"""Looseness above which the test abstains: under label skew honest updates have no common direction, and a comparison
bans nearly every client at Dirichlet 0.5."""


def judge_majority(bank: Bank, n_parameters: int, *, by_root: bool = False) -> MajorityFinding:
    """Find the rows of `bank` that go against the majority; `by_root`: against that of the rows that go downhill on the
    root set."""
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
        finding, far = judge_majority(comparable, n_parameters, by_root=by_root), per_client(huge)
        reasons = finding.reasons | {int(one): "too long to be compared" for one in present[huge]}
        return replace(finding, out=finding.out | far, struck=finding.struck | far, reasons=reasons)
    unknown = MajorityFinding(none, none, none, none, {"rank": 0.0})
    if len(present) < 2:
        return unknown
    noise_std = bank.noise_std[present]
    # The spectrum's noise has the mean variance of all rows; rows with more or less differ only in their alignment.
    sigma = float(np.sqrt(np.mean(noise_std**2)))
    gram = bank.gram[np.ix_(present, present)]
    embedding = embed(gram, product_std(gram, n_parameters, sigma))
    voters = downhill(bank.projections[present], bank.arrived[present]) if by_root else np.ones(len(present), bool)
    notes = {"rank": 0.0 if embedding is None else float(len(embedding.noise)), "voters": float(voters.sum())}
    if embedding is None:
        return replace(unknown, notes=notes)
    notes["looseness"] = looseness(embedding)
    if notes["looseness"] > DIFFUSE:
        return replace(unknown, notes=notes | {"diffuse": 1.0}, decided=True)
    if not voters.any():
        return replace(unknown, notes=notes)
    noisiness = noise_std / sigma if sigma > 0 else np.ones(len(present))
    alignment = align(embedding, bank.base_versions[present], voters, noisiness)
    noise = (DOUBT * alignment.doubt) ** 2
    certain, clear = alignment.clearness > CERTAINTY, alignment.clearness > SUSPICION
    against = clear & (alignment.along < np.minimum(DIRECTION, 1 - BLUR * alignment.blur))
    along_with = clear & (alignment.along > np.maximum(DIRECTION, 1 - ACQUITTAL * alignment.blur))
    apart = certain & (alignment.off > COHERENCE + noise)
    gross = certain & (alignment.off > COHERENCE_STRIKE + noise)
    behind = certain & lagging(alignment.along, LAGGARDS)
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


def align(embedding: Embedding, base_versions: Ints, voters: Bools, noisiness: Floats | float = 1.0) -> Alignment:
    """Return the position of each point relative to the majority: the geometric median of the points that are `voters`
    (n,), at least one, weighed by how near their `base_versions` (n,) are; `noisiness`: see `alignment_with`."""
    versions, which = np.unique(base_versions, return_inverse=True)
    gaps = np.abs(base_versions - versions[:, None]).astype(np.float64)
    nearest = np.where(voters, gaps, np.inf).min(axis=1, keepdims=True)
    # Only ratios of weights matter; relative to the nearest voter their sum cannot underflow to 0.
    weights = np.where(voters, np.exp((nearest - gaps) / MEMORY_VERSIONS), 0.0)
    return alignment_with(embedding, geometric_medians(embedding.points, weights)[which], noisiness)


def lagging(along: Floats, apart: float) -> Bools:
    """Return whether each point is in a separate minority with smaller projections `along` (n,) on the majority, see
    `separate_lower`. Smaller shortfalls do no harm."""
    lower = separate_lower(along, apart)
    return lower & bool(2 * lower.sum() < len(along))


def projections(deltas: Vector, gradient: Vector) -> Floats:
    """Return the projections (n,) of `deltas` (n, d) on the root set's descent direction -g / |g|, g the `gradient`
    (d,); 0 if g is 0."""
    direction = gradient.astype(np.float64)
    length = float(np.linalg.norm(direction))
    return np.asarray(-(deltas @ direction) / length) if length else np.zeros(len(deltas))


def downhill(along: Floats, arrived: Ints) -> Bools:
    """Return whether each projection on the root set's descent is at least half of the usual one, the upper quantile
    (0.8) of the newest 40 rows; all False if that is not positive. `arrived`: running numbers of the rows."""
    bar = 0.5 * float(np.quantile(along[np.argsort(-arrived, kind="stable")[:40]], 0.8))
    return (along >= bar) & (bar > 0)
