"""The spectral detector: certificates, then a test on the inner products of all clients' last updates.

It asks no client for anything, so no evaluator can lie. Each part can be switched off. The state is replaced, never
changed; its memory is the bank: clients x parameters in float32 (or clients x `sketch`).

The defaults go past the first design where that failed: `majority.diffuse` (label skew), `majority.laggards` (Min-Max),
`majority.memory_versions` 20 instead of 6 (flooding) and `strike_at_gate`; null, null, 6 and false give the first
design. `majority.skewed: root` judges by a root set under label skew. It is meant to be used with selection `fair` and
a ban at 2 strikes in the last 3 updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.defences.buffer import Buffer
from asyncfl.defences.detector import DefenceContext, Detector, Verdict
from asyncfl.defences.spectral.bank import Bank, empty_bank, inner_products, squared_norms
from asyncfl.defences.spectral.certificates import ROUNDING, culprits, norm_bounds, pair_bounds
from asyncfl.defences.spectral.gate import Provisional, amends, covers
from asyncfl.defences.spectral.majority import Finding, MajorityTest
from asyncfl.defences.spectral.root import projections
from asyncfl.defences.spectral.sketch import Sketch, draw_sketch
from asyncfl.messages import Vector


@dataclass(frozen=True)
class SpectralState:
    """What is remembered from buffer to buffer."""

    context: DefenceContext
    bank: Bank
    is_open: bool = False
    """Whether verdicts count."""
    provisional: tuple[Provisional, ...] = ()
    """What was let in or kept out so far, while they do not."""
    banned: frozenset[int] = frozenset()
    sketch: Sketch | None = None
    """What shortens updates before they are compared; None: nothing."""


class Spectral(Detector):
    """Flags updates that break a certificate or go against the majority of the clients' last updates."""

    kind: Literal["spectral"] = "spectral"
    deviations: Annotated[float, Field(gt=0)] = 6.0
    """q: standard deviations of noise that a certificate forgives."""
    norm_certificate: bool = True
    """Whether lengths are checked."""
    pair_certificate: bool = True
    """Whether inner products are checked."""
    majority: MajorityTest | None = MajorityTest()
    """The spectral test; null: only certificates speak."""
    coverage: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Share of the clients not banned that the bank must hold before verdicts count; 0: from the first buffer on."""
    strike_at_gate: bool = True
    """Whether the guilty of earlier buffers are struck once when the gate opens, and so are banned an update sooner."""
    sketch: Annotated[int, Field(ge=1)] | None = None
    """Numbers of each update that the bank keeps, for very many clients or parameters; null: all of them."""
    root: bool = True
    """Whether a root set, where the server has one, decides who belongs to the majority."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> SpectralState:
        """See `Detector.start`."""
        short = self.sketch is not None and self.sketch < context.n_parameters
        sketch = draw_sketch(context.n_parameters, self.sketch or 1, random) if short else None
        return SpectralState(context, empty_bank(context.clients), sketch=sketch)

    def banned(self, state: SpectralState, client: int) -> SpectralState:
        """The bank forgets the client, see `Detector.banned`."""
        return replace(state, bank=state.bank.forget(client), banned=state.banned | {client})

    def judge(
        self, state: SpectralState, buffer: Buffer, scores: NDArray[np.float64] | None
    ) -> tuple[Verdict, SpectralState]:
        """See `Detector.judge`. `scores` are not used."""
        deltas = buffer.deltas
        kept = deltas if state.sketch is None else state.sketch(deltas)
        own = inner_products(kept, kept)
        against = state.bank.products(kept)
        reasons = self._certify(state, buffer.clients, deltas, own, against)
        certified = np.array([bool(reason) for reason in reasons], dtype=bool)
        out, struck = certified.copy(), certified.copy()
        bank, finding = state.bank, None
        along = self._along(state.context, buffer)
        for rows, products in _waves(buffer.clients, ~certified, against, own):
            clients = buffer.clients[rows]
            bank = bank.put(clients, kept[rows], products, buffer.base_versions[rows], along[rows])
            finding = self._test(state, bank)
            out[rows], struck[rows] = finding.out[clients], finding.struck[clients]
            for row, client in zip(rows, clients, strict=True):
                reasons[row] = finding.reasons.get(int(client), "")
        notes = {"certificates": float(certified.sum())} | (finding.notes if finding else {})
        correction, provisional, late = None, state.provisional, set[int]()
        seen, clients_left = len(bank.present), state.context.clients - len(state.banned)
        is_open = state.is_open or covers(seen, clients_left, self.coverage)
        if is_open and not state.is_open:
            finding = finding or self._test(state, bank)
            guilty = finding.out.copy()
            guilty[list(state.banned)] = True
            if self.strike_at_gate:
                # Who is in this buffer is struck for it; one finding is not two strikes.
                known = state.banned | set(buffer.clients.tolist())
                late = {entry.client for entry in provisional if guilty[entry.client]} - known
            correction, provisional = amends(provisional, guilty), ()
        elif not is_open:
            struck &= certified
            provisional += _remember(state.context, buffer, out, certified)
        notes["gate_open"] = float(is_open)
        verdict = Verdict(
            out,
            struck,
            correction=correction,
            late_strikes=tuple(sorted(late)),
            details=tuple(reasons),
            notes=notes,
        )
        return verdict, replace(state, bank=bank, is_open=is_open, provisional=provisional)

    def _certify(
        self,
        state: SpectralState,
        clients: NDArray[np.int64],
        deltas: Vector,
        own: NDArray[np.float64],
        against: NDArray[np.float64],
    ) -> list[str]:
        """Per update which certificate it breaks, or an empty text."""
        context, reasons = state.context, [""] * len(deltas)
        noise_std = context.upload_std
        step = longest_steps(context)
        shortest, longest = norm_bounds(context.n_parameters, noise_std, step, self.deviations)
        if self.norm_certificate:
            lower, upper = shortest[clients], longest[clients]
            lengths = np.sqrt(squared_norms(deltas))
            for row in np.flatnonzero((lengths < lower * (1 - ROUNDING)) | (lengths > upper * (1 + ROUNDING))):
                reasons[row] = f"norm {lengths[row]:.4g} not in {lower[row]:.4g}..{upper[row]:.4g}"
        if self.pair_certificate:
            bound = pair_bounds(
                context.n_parameters, noise_std[clients], step[clients], noise_std, step, self.deviations
            )
            if state.sketch is not None:
                # An inner product is at most the product of the lengths, and each of these at most `longest`.
                lengths_product = np.multiply.outer(longest[clients], longest)
                bound += self.deviations * np.sqrt(2 / state.sketch.length) * lengths_product
            bound *= 1 + ROUNDING
            for row in np.flatnonzero((np.abs(against) > bound).any(axis=1)):
                reasons[row] = reasons[row] or "pair with an earlier update"
            sound = np.array([not reason for reason in reasons])
            conflicts = (np.abs(own) > bound[:, clients]) & sound & sound[:, None]
            for row in np.flatnonzero(culprits(conflicts)):
                reasons[row] = "pair within the buffer"
        return reasons

    def _along(self, context: DefenceContext, buffer: Buffer) -> NDArray[np.float64]:
        if not self.root or context.root_gradient is None:
            return np.full(len(buffer), np.nan)
        return projections(buffer.deltas, context.root_gradient(buffer.current))

    def _test(self, state: SpectralState, bank: Bank) -> Finding:
        context = state.context
        if self.majority is None:
            nobody = np.zeros(context.clients, dtype=bool)
            return Finding(nobody, nobody, {}, {})
        by_root = self.root and context.root_gradient is not None
        extra = 0.0
        if state.sketch is not None:
            squared_lengths = np.diag(bank.gram)[bank.present]
            extra = float(np.mean(squared_lengths)) ** 2 / state.sketch.length
        return self.majority.judge(
            bank, context.n_parameters, context.upload_std, by_root=by_root, extra_variance=extra
        )


def longest_steps(context: DefenceContext) -> NDArray[np.float64]:
    """(clients,) b = lr C S: how far an honest client can move its model; infinite without gradient clipping."""
    clip = np.inf if context.gradient_clip is None else context.gradient_clip
    return np.asarray(context.lr * clip * context.steps, dtype=np.float64)


def _waves(
    clients: NDArray[np.int64], sound: NDArray[np.bool_], against: NDArray[np.float64], own: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Rows in waves of different clients, each with its inner products with the bank as it is after that wave.

    Where a client sent several updates, its first are in the first wave, so that each is judged and none hides behind a
    later one.
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
) -> tuple[Provisional, ...]:
    """The buffer's provisional verdicts; certified guilt is final and not among them."""
    held, applied = np.flatnonzero(out & ~certified), np.flatnonzero(~out)
    every = np.arange(len(buffer))
    factors = np.zeros(len(buffer))
    for rows, judged in ((held, every), (applied, applied)):
        if len(rows):
            all_factors = context.factors(buffer.samples[judged], buffer.staleness[judged])
            factors[rows] = all_factors[np.searchsorted(judged, rows)]
    return tuple(
        Provisional(int(buffer.clients[row]), float(factors[row]), not out[row], buffer.deltas[row].copy())
        for row in np.sort(np.concatenate([held, applied]))
    )
