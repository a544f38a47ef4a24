"""The spectral test: which clients' last updates go against the majority of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.defences.spectral.alignment import Alignment, alignment_with, lagging, looseness
from asyncfl.defences.spectral.bank import Bank
from asyncfl.defences.spectral.geometric_medians import geometric_medians
from asyncfl.defences.spectral.root_projection import downhill, uphill
from asyncfl.defences.spectral.spectrum import Embedding, embed, product_std
from asyncfl.quantities import MeasuredIn

HUGE = 1e3
"""Lengths of the usual update above which one is left out before anything is compared with it, and struck."""


@dataclass(frozen=True)
class MajorityFinding:
    """What the test says of the bank's rows. Arrays are (clients,); a client without a row is not left out."""

    out: NDArray[np.bool_]
    """Clients whose updates are to be left out."""
    struck: NDArray[np.bool_]
    """Those of them to whom it counts as a strike."""
    reasons: dict[int, str]
    """Client -> why."""
    notes: dict[str, float]
    decided: bool = False
    """Whether the majority is certain for most rows, or has been found to have no common direction."""
    clearness: float = 0.0
    """How far it stands clear of the noise: median over the rows, in standard deviations."""
    against: frozenset[int] = frozenset()
    """Clients that are left out because they do not go along the majority."""
    cleared: frozenset[int] = frozenset()
    """Clients that go along it, as far as their noise lets see."""

    def merge_pooled(self, pooled: MajorityFinding) -> MajorityFinding:
        """What this or a clearer finding, of the `pooled` updates, says.

        Of that only who goes against the majority counts: means of updates of different times lie off a common line
        when the majority turns.
        """
        more = np.zeros_like(self.out)
        more[list(pooled.against)] = True
        return MajorityFinding(
            self.out | more,
            self.struck | more,
            {client: f"pooled {pooled.reasons[client]}" for client in sorted(pooled.against)} | self.reasons,
            self.notes | {"pooled": pooled.clearness},
            self.decided or pooled.decided,
            pooled.clearness,
            self.against | pooled.against,
            pooled.cleared - self.against,
        )


class MajorityTest(Described):
    """The spectral test with its settings: finds clients whose updates go against the majority."""

    edge_factor: Annotated[float, Field(gt=0), MeasuredIn("factor")] = 1.3
    """Eigenvalues count above this multiple of the edge of the noise's spectrum."""
    weakest: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.02
    """Eigenvalues count above this share of the greatest."""
    components: Annotated[int, Field(ge=1), MeasuredIn("eigenvalues")] = 6
    """Most eigenvalues that count."""
    imputations: Annotated[int, Field(ge=0), MeasuredIn("rounds")] = 5
    """Rounds of imputing the Gram matrix' diagonal; 0 leaves it 0, which shortens every point."""
    memory_versions: Annotated[float, Field(gt=0), MeasuredIn("versions")] = 20.0
    """Versions between two updates' bases after which one weighs 1/e in the other's majority. It should be longer than
    the bank's rows are old: with 6, attackers that answer five times as fast have the freshest rows, hence the greater
    weight though they are the minority, and honest clients are banned."""
    weiszfeld_steps: Annotated[int, Field(ge=1), MeasuredIn("steps")] = 60
    """Steps of the geometric median."""
    certainty: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 5.0
    """Standard deviations that the majority must be clear of the noise by to be certain."""
    suspicion: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 2.0
    """Standard deviations below which the test abstains. Between the two only `direction` counts, and only beyond what
    a point's own noise excuses (`blur`)."""
    direction: Annotated[float, MeasuredIn("share")] = 0.3
    """Left out is what goes less than this along the majority (1: as far as it)."""
    coherence: Annotated[float, Field(gt=0), MeasuredIn("share")] = 1.0
    """Left out is what lies further than this off the majority's line (squared, and beside the noise)."""
    coherence_strike: Annotated[float, Field(gt=0), MeasuredIn("share")] = 2.5
    """And struck above this."""
    doubt: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 4.0
    """Standard deviations of noise that are forgiven a point off the line."""
    blur: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 3.5
    """Standard deviations of its own noise that are forgiven a point along it. Where the majority is certain this
    matters to points that are noisier than others: of the others `direction` is as far from it."""
    acquittal: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 2.0
    """Standard deviations of its own noise within which a point must go as far as the majority not to be suspected any
    more."""
    laggards: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] | None = 5.0
    """Left out, but not struck, is also a minority that goes less far along the majority, if it lies this many standard
    deviations of both groups apart: attackers that stay just inside `direction` to slow the model down. One group of
    honest clients, cut in two, lies 2.6 apart. null: nobody is."""
    diffuse: Annotated[float, Field(gt=0), MeasuredIn("1")] | None = 0.5
    """Updates looser than this (see `looseness`) are not measured against a common line: under label skew honest ones
    have none. null: they always are, which bans nearly everybody under Dirichlet 0.5."""
    skewed: Literal["abstain", "root"] = "abstain"
    """What happens then. `abstain`: only certificates speak. `root`: who goes uphill on the root set is left out, and
    struck if far (see `uphill`); not the default, since it lets a hundred samples judge single updates. Without a root
    set both abstain."""

    def judge(
        self,
        bank: Bank,
        n_parameters: int,
        *,
        by_root: bool = False,
        extra_variance: float = 0.0,
    ) -> MajorityFinding:
        """What the test says of the rows of `bank`.

        The mean square of the rows' noise is everybody's where no single row is looked at. `by_root`: the majority
        is that of the rows that go downhill on the root set. `extra_variance`: of one inner product, beside that of the
        clients' noise.
        """
        present, nobody = bank.present, np.zeros(len(bank.rows), dtype=bool)
        squares = np.diagonal(bank.gram)[present]
        huge = squares > HUGE**2 * np.median(squares) if len(present) else nobody[:0]
        if huge.any() and np.median(squares) > 0:
            # Beside these nothing else would stand out; without them the rest is judged as ever.
            comparable = bank
            for client in present[huge].tolist():
                comparable = comparable.forget(client)
            finding = self.judge(comparable, n_parameters, by_root=by_root, extra_variance=extra_variance)
            far = _per_client(huge, present, nobody)
            reasons = {int(one): "too long to be compared" for one in present[huge]}
            return replace(
                finding, out=finding.out | far, struck=finding.struck | far, reasons=finding.reasons | reasons
            )
        if len(present) < 2:
            return MajorityFinding(nobody, nobody, {}, {"rank": 0.0})
        gram = bank.gram[np.ix_(present, present)]
        noise_std = bank.noise_std[present]
        sigma = float(np.sqrt(np.mean(noise_std**2)))
        noisiness = noise_std / sigma if sigma > 0 else np.ones(len(present))
        noise = product_std(gram, n_parameters, sigma, extra_variance)
        embedding = embed(
            gram,
            noise,
            edge_factor=self.edge_factor,
            weakest=self.weakest,
            components=self.components,
            imputations=self.imputations,
        )
        reference = (
            downhill(bank.projections[present], bank.arrived[present]) if by_root else np.ones(len(present), bool)
        )
        notes = {"rank": 0.0 if embedding is None else float(len(embedding.noise)), "voters": float(reference.sum())}
        if embedding is None:
            return MajorityFinding(nobody, nobody, {}, notes)
        notes["looseness"] = looseness(embedding)
        if self.diffuse is not None and notes["looseness"] > self.diffuse:
            notes["diffuse"] = 1.0
            if self.skewed == "abstain" or not by_root:
                return MajorityFinding(nobody, nobody, {}, notes, decided=True)
            along = bank.projections[present]
            left, far = uphill(along, bank.arrived[present])
            reasons = {int(present[row]): f"uphill {along[row]:.3g}" for row in np.flatnonzero(left)}
            out, struck = _per_client(left, present, nobody), _per_client(far, present, nobody)
            return MajorityFinding(out, struck, reasons, notes, decided=True)
        if not reference.any():
            return MajorityFinding(nobody, nobody, {}, notes)
        alignment = self.alignment(embedding, bank.base_versions[present], reference, noisiness)
        notes |= {"diffuse": 0.0, "certain": float((alignment.clearness > self.certainty).mean())}
        return self._find(alignment, present, nobody, notes)

    def alignment(
        self,
        embedding: Embedding,
        base_versions: NDArray[np.int64],
        reference: NDArray[np.bool_],
        noisiness: NDArray[np.float64] | float = 1.0,
    ) -> Alignment:
        """How each point lies to the median of the `reference` rows (near versions count most), see `alignment_with`.

        `base_versions`: (n,) of the points. `reference`: (n,) bool, at least one. `noisiness`: (n,), as there.
        """
        versions, which = np.unique(base_versions, return_inverse=True)
        gaps = np.abs(base_versions - versions[:, None]).astype(np.float64)
        nearest = np.where(reference, gaps, np.inf).min(axis=1, keepdims=True)
        # Only ratios of weights count; against the nearest such row none of them underflows to a sum of 0.
        weights = np.where(reference, np.exp((nearest - gaps) / self.memory_versions), 0.0)
        medians = geometric_medians(embedding.points, weights, self.weiszfeld_steps)
        return alignment_with(embedding, medians[which], noisiness)

    def _find(
        self, alignment: Alignment, present: NDArray[np.int64], nobody: NDArray[np.bool_], notes: dict[str, float]
    ) -> MajorityFinding:
        noise = (self.doubt * alignment.doubt) ** 2
        certain, clear = alignment.clearness > self.certainty, alignment.clearness > self.suspicion
        against = clear & (alignment.along < np.minimum(self.direction, 1 - self.blur * alignment.blur))
        along_with = clear & (alignment.along > np.maximum(self.direction, 1 - self.acquittal * alignment.blur))
        apart = certain & (alignment.off > self.coherence + noise)
        gross = certain & (alignment.off > self.coherence_strike + noise)
        behind = certain & lagging(alignment.along, self.laggards)
        reasons = {
            int(present[row]): f"direction {alignment.along[row]:.2f}"
            if against[row]
            else f"coherence {alignment.off[row]:.2f}"
            if apart[row]
            else f"laggard {alignment.along[row]:.2f}"
            for row in np.flatnonzero(against | apart | behind)
        }
        return MajorityFinding(
            _per_client(against | apart | behind, present, nobody),
            _per_client(against | gross, present, nobody),
            reasons,
            notes,
            decided=bool(2 * certain.sum() >= len(present)),
            clearness=float(np.median(alignment.clearness)),
            against=frozenset(present[against].tolist()),
            cleared=frozenset(present[along_with].tolist()),
        )


def _per_client(rows: NDArray[np.bool_], present: NDArray[np.int64], nobody: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What was found of the rows `present`, as one value per client."""
    every = nobody.copy()
    every[present] = rows
    return every
