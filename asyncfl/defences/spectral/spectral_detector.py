"""The spectral detector: certificates, then a majority test on the inner products of all clients' last updates.

It asks no client for scores, so no evaluator can lie. Each part can be switched off. The state is immutable. Its memory
consists of the bank and the pool, each clients x parameters in float32 (or clients x `sketch`), and of every update
until the gate opens: verdicts are provisional until the detector has seen enough clients (`coverage`, `patience`).

The defaults improve on the first design where it failed: `majority.diffuse` (label skew), `majority.laggards`
(Min-Max), `majority.memory_versions` 20 instead of 6 (flooding), `strike_at_gate`, and `pool`, `patience`, `amends` and
`majority.suspicion` (networks that start on a plateau, where single updates are mostly noise). The values null, null,
6, false, null, 0, `subtract` and 5 restore the first design. `majority.skewed: root` judges by a root set under label
skew. The detector is meant for selection `fair` and a ban at 2 strikes in the last 3 updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.spectral.bank import COMPARABLE, Bank, empty_bank, inner_products, squared_norms
from asyncfl.defences.spectral.certificates import (
    ROUNDING,
    UNCHECKED_REMARK,
    norm_bounds,
    pair_bounds,
    resolve_conflicts,
)
from asyncfl.defences.spectral.majority_test import MajorityFinding, MajorityTest
from asyncfl.defences.spectral.pool import Pool, empty_pool
from asyncfl.defences.spectral.provisional import CorrectionKind, ProvisionalBuffer, correction_of, covers
from asyncfl.defences.spectral.root_projection import projections
from asyncfl.defences.spectral.sketch import Sketch, draw_sketch


@dataclass(frozen=True)
class SpectralState:
    """State of the detector between buffers."""

    context: DefenceContext
    bank: Bank
    pool: Pool | None = None
    """Means of each client's last updates; None: not kept."""
    is_open: bool = False
    """Whether verdicts are final: the gate is open."""
    provisional: tuple[ProvisionalBuffer, ...] = ()
    """The buffers so far, while verdicts are provisional."""
    suspects: frozenset[int] = frozenset()
    """Clients that went against the majority and have not been cleared since; only used while noise blurs the
    majority."""
    banned: frozenset[int] = frozenset()
    sketch: Sketch | None = None
    """Random projection of updates before they are compared; None: none."""


class Spectral(Detector):
    """Flags updates that break a certificate or go against the majority of the clients' last updates. Source: ours."""

    kind: Literal["spectral"] = "spectral"
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.detector_certificates",
        "rounds.detector_gate_open",
        "rounds.detector_looseness",
    )
    deviations: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 6.0
    """q: standard deviations of noise that a certificate tolerates."""
    norm_certificate: bool = True
    """Whether norms of updates are checked; those of compressed updates never are."""
    pair_certificate: bool = True
    """Whether inner products of two updates are checked; those of compressed updates never are."""
    majority: MajorityTest | None = MajorityTest()
    """The majority test; null: only certificates."""
    coverage: Annotated[float, Field(ge=0, le=1), MeasuredIn("share")] = 0.8
    """Share of the clients not banned that must have sent an update before verdicts are final (the gate opens); 0: no
    share, see `patience`."""
    patience: Annotated[float, Field(ge=0), MeasuredIn("updates per client")] = 5.0
    """Maximum number of updates per client not banned that the gate waits for until the majority is clear of the noise;
    all of them are stored. 0: the gate opens by coverage alone."""
    amends: CorrectionKind = "rebuild"
    """Correction of the model for revised verdicts, see `provisional.correction_of`. `rebuild`: at each buffer until
    the gate opens, for the last time then; `subtract`: only when it opens."""
    pool: Annotated[int, Field(ge=2), MeasuredIn("updates")] | None = 5
    """Number of a client's last updates whose mean is judged in addition while single updates are not clear of the
    noise; null: never."""
    enough: Annotated[float, Field(ge=0), MeasuredIn("standard deviations")] = 20.0
    """Clearness of the majority (see `majority.certainty`) from which single updates suffice."""
    strike_at_gate: bool = True
    """Whether clients are struck once, when the gate opens, for updates of earlier buffers that are left out by then;
    this bans attackers one update earlier."""
    sketch: Annotated[int, Field(ge=1), MeasuredIn("numbers")] | None = None
    """Length of the random projection of each update that the bank stores, for very many clients or parameters; null:
    the whole update."""
    root: bool = True
    """Whether a root set, if the server has one, determines the majority."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> SpectralState:
        short = self.sketch is not None and self.sketch < context.n_parameters
        sketch = draw_sketch(context.n_parameters, self.sketch or 1, random) if short else None
        pool = None if self.pool is None else empty_pool(context.clients)
        return SpectralState(context, empty_bank(context.clients), pool, sketch=sketch)

    def forget_client(self, state: SpectralState, client: int) -> SpectralState:
        """Return the state without the data of `client`, see `Detector.forget_client`."""
        pool = None if state.pool is None else state.pool.forget(client)
        return replace(
            state,
            bank=state.bank.forget(client),
            pool=pool,
            banned=state.banned | {client},
            suspects=state.suspects - {client},
        )

    def judge(
        self, state: SpectralState, buffer: Buffer, scores: NDArray[np.float64] | None
    ) -> tuple[Verdict, SpectralState]:
        """Return the verdict on `buffer` and the next state, see `Detector.judge`. `scores` are ignored."""
        deltas = buffer.deltas
        kept = deltas if state.sketch is None else state.sketch(deltas)
        own = inner_products(kept, kept)
        against = state.bank.products(kept)
        reasons = self._broken_certificates(state, buffer, own, against)
        broken = np.array([bool(reason) for reason in reasons], dtype=bool)
        # Other updates of a sender of a forged update are left out too, whether or not it is banned.
        certified = np.isin(buffer.clients, buffer.clients[broken])
        reasons = [
            reason or "sent along with one" if bad else "" for reason, bad in zip(reasons, certified, strict=True)
        ]
        out, struck = certified.copy(), broken.copy()
        bank, pool, finding, suspects = state.bank, state.pool, None, state.suspects
        along = self._projections(state.context, buffer)
        for rows, products in _one_update_per_client(buffer.clients, ~certified, against, own):
            clients, noise_std = buffer.clients[rows], buffer.upload_std[rows]
            bank = bank.put(clients, kept[rows], products, buffer.base_versions[rows], along[rows], noise_std)
            if pool is not None and self.pool is not None:
                pool = pool.add(clients, kept[rows], buffer.base_versions[rows], along[rows], noise_std, self.pool)
            finding = self._majority_finding(state, bank, pool)
            suspects = self._suspects(state, finding)
            out[rows], struck[rows] = finding.out[clients] | np.isin(clients, list(suspects)), finding.struck[clients]
            for row, client in zip(rows, clients, strict=True):
                reasons[row] = finding.reasons.get(int(client), "suspected before" if client in suspects else "")
        notes = {"certificates": float(broken.sum())} | (finding.notes if finding else {})
        is_open, correction, provisional, late = state.is_open, None, state.provisional, set[int]()
        if not is_open:
            finding = finding or self._majority_finding(state, bank, pool)
            left_out = finding.out.copy()
            left_out[list(state.banned | suspects)] = True
            is_open = self._opens(state, bank, len(buffer), finding)
            if is_open or self.amends == "rebuild":
                correction = correction_of(provisional, left_out, self.amends, state.context.factors)
                provisional = tuple(earlier.with_verdicts(left_out, state.context.factors) for earlier in provisional)
            if is_open:
                if self.strike_at_gate:
                    # Clients of this buffer are struck for it and must not be struck twice for one result.
                    known = state.banned | set(buffer.clients.tolist())
                    late = {int(one) for earlier in provisional for one in earlier.clients if left_out[one]} - known
                provisional = ()
            else:
                struck &= broken
                provisional += (_remember(state.context, buffer, out, certified),)
        notes["gate_open"] = float(is_open)
        unchecked = state.context.compressed and (self.norm_certificate or self.pair_certificate)
        verdict = Verdict(
            out,
            struck,
            correction=correction,
            late_strikes=tuple(sorted(late)),
            details=tuple(reasons),
            remarks=(UNCHECKED_REMARK,) if unchecked else (),
            notes=notes,
        )
        return verdict, replace(
            state, bank=bank, pool=pool, is_open=is_open, provisional=provisional, suspects=suspects
        )

    def _opens(self, state: SpectralState, bank: Bank, arrived: int, finding: MajorityFinding) -> bool:
        """Return whether verdicts are final from now on (the gate opens).

        `bank`: last updates, those of this buffer included. `arrived`: number of updates of this buffer. `finding`:
        result of the majority test for `bank`.
        """
        clients_left = state.context.clients - len(state.banned)
        if not covers(len(bank.present), clients_left, self.coverage):
            return False
        remembered = arrived + sum(len(earlier.clients) for earlier in state.provisional)
        return finding.decided or remembered >= self.patience * clients_left

    def _broken_certificates(
        self,
        state: SpectralState,
        buffer: Buffer,
        own: NDArray[np.float64],
        against: NDArray[np.float64],
    ) -> list[str]:
        """Return n texts: the certificate that each update breaks, or an empty text.

        `own`: (n, n) inner products of the buffer's updates; `against`: (n, clients) those with the rows of the bank.
        """
        context, reasons = state.context, [""] * len(buffer)
        n_parameters, noise_std, of_bank = context.n_parameters, buffer.upload_std, state.bank.noise_std
        every = longest_steps(context)
        step = every[buffer.clients]
        between = context.noise_between_epochs
        lower, upper = norm_bounds(n_parameters, noise_std, step, self.deviations, noise_between_epochs=between)
        lengths = np.sqrt(squared_norms(buffer.deltas))
        for row in np.flatnonzero(lengths > COMPARABLE):
            reasons[row] = f"norm {lengths[row]:.4g} cannot be compared with anything"
        if context.compressed:
            return reasons
        if self.norm_certificate:
            for row in np.flatnonzero((lengths < lower * (1 - ROUNDING)) | (lengths > upper * (1 + ROUNDING))):
                reasons[row] = f"norm {lengths[row]:.4g} not in {lower[row]:.4g}..{upper[row]:.4g}"
        if self.pair_certificate:
            earlier = pair_bounds(n_parameters, noise_std, step, of_bank, every, self.deviations)
            within = pair_bounds(n_parameters, noise_std, step, noise_std, step, self.deviations)
            if state.sketch is not None:
                # An inner product is at most the product of the norms, each at most its upper bound.
                blur = self.deviations * np.sqrt(2 / state.sketch.length)
                _, longest = norm_bounds(n_parameters, of_bank, every, self.deviations, noise_between_epochs=between)
                earlier += blur * np.multiply.outer(upper, longest)
                within += blur * np.multiply.outer(upper, upper)
            for row in np.flatnonzero((np.abs(against) > earlier * (1 + ROUNDING)).any(axis=1)):
                reasons[row] = reasons[row] or "pair with an earlier update"
            sound = np.array([not reason for reason in reasons])
            conflicts = (np.abs(own) > within * (1 + ROUNDING)) & sound & sound[:, None]
            for row in np.flatnonzero(resolve_conflicts(conflicts)):
                reasons[row] = "pair within the buffer"
        return reasons

    def _projections(self, context: DefenceContext, buffer: Buffer) -> NDArray[np.float64]:
        """Return the projection (n,) of each update on the root set's descent direction; NaN if the root set is not
        used."""
        if not self.root or context.root_gradient is None:
            return np.full(len(buffer), np.nan)
        return projections(buffer.deltas, context.root_gradient(buffer.current))

    def _majority_finding(self, state: SpectralState, bank: Bank, pool: Pool | None) -> MajorityFinding:
        """Return the finding of the majority test on single updates, merged with that on the pool's means where these
        are clearer and single updates are not clear `enough`.

        Without a majority test no client is left out, and the finding is decided.
        """
        context = state.context
        if self.majority is None:
            none = np.zeros(context.clients, dtype=bool)
            return MajorityFinding(none, none, {}, {}, decided=True)
        finding = self._apply_test(self.majority, state, bank)
        if pool is None or self._is_clear(finding):
            return finding
        pooled = self._apply_test(self.majority, state, pool.bank)
        return finding.merge_pooled(pooled) if pooled.clearness > finding.clearness else finding

    def _is_clear(self, finding: MajorityFinding) -> bool:
        """Return whether single updates suffice: their majority is clear enough, or has no common direction."""
        return finding.clearness >= self.enough or bool(finding.notes.get("diffuse"))

    def _suspects(self, state: SpectralState, finding: MajorityFinding) -> frozenset[int]:
        """Return the suspects after `finding`: clients whose updates stay left out until they go along with the
        majority again. There are none without a pool, or if single updates are clear.

        Where noise blurs the majority, each buffer reveals a different part of the attackers.
        """
        if self.pool is None or self._is_clear(finding):
            return frozenset()
        return (state.suspects - finding.cleared) | finding.against

    def _apply_test(self, test: MajorityTest, state: SpectralState, bank: Bank) -> MajorityFinding:
        """Return the finding of `test` on the rows of `bank`, with the variance that a sketch adds to inner
        products."""
        extra = 0.0
        if state.sketch is not None:
            squared_lengths = np.diag(bank.gram)[bank.present]
            extra = float(np.mean(squared_lengths)) ** 2 / state.sketch.length
        by_root = self.root and state.context.root_gradient is not None
        return test.judge(bank, state.context.n_parameters, by_root=by_root, extra_variance=extra)


def longest_steps(context: DefenceContext) -> NDArray[np.float64]:
    """Return b = lr C S (clients,), the largest change of the model by an honest client; infinite without gradient
    clipping."""
    clip = np.inf if context.gradient_clip is None else context.gradient_clip
    return np.asarray(context.lr * clip * context.steps, dtype=np.float64)


def _one_update_per_client(
    clients: NDArray[np.int64], sound: NDArray[np.bool_], against: NDArray[np.float64], own: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the rows of a buffer in groups with at most one update per client: first the first update of each client,
    then the second ones, and so on.

    The bank keeps one update per client, so each group is stored and judged before the next replaces it. Yields the
    rows (k,) of each group and their inner products (k, clients) with the bank once the group is stored.

    `clients`: (n,) sender of each row. `sound`: (n,) whether to include the row. `against`: (n, clients) inner products
    with the bank before. `own`: (n, n) inner products of the rows with each other.
    """
    products = against.copy()
    left = np.flatnonzero(sound)
    while len(left):
        rows = left[np.sort(np.unique(clients[left], return_index=True)[1])]
        products[:, clients[rows]] = own[:, rows]
        yield rows, products[rows]
        left = np.setdiff1d(left, rows)


def _remember(
    context: DefenceContext, buffer: Buffer, out: NDArray[np.bool_], certified: NDArray[np.bool_]
) -> ProvisionalBuffer:
    """Return the buffer with its provisional verdicts, without updates that broke a certificate, whose verdicts are
    final.

    `out`: (n,) whether each update is left out. `certified`: (n,) whether it is left out by a certificate.
    """
    factors = context.factors_of(buffer, np.arange(len(buffer))).copy()
    applied = np.flatnonzero(~out)
    factors[applied] = context.factors_of(buffer, applied)
    rows = np.flatnonzero(~certified)
    return ProvisionalBuffer.of(buffer, rows, ~out[rows], factors[rows])
