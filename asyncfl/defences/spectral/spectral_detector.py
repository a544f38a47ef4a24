"""The spectral detector: certificates, then a majority test on the inner products of all clients' last updates.

It asks no client for scores, so no evaluator can lie. Its memory consists of the bank and the pool, each clients x
parameters in float32, and of every update until the gate opens. It is meant for selection `fair` and a ban at 2 strikes
in the last 3 updates.

With few rows in the bank attackers may be the majority by chance, and while updates are mostly noise clients cannot be
distinguished. Until the gate opens (`coverage`, `patience`), verdicts are provisional: they leave updates out but
strike no client. At each buffer all clients are judged again with the whole bank, and the next model is corrected. When
the gate opens, clients are struck once for updates of earlier buffers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext, Factors
from asyncfl.defences.certificates import UNCHECKED_REMARK, check_certificates
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.spectral.bank import Bank, empty_bank
from asyncfl.defences.spectral.majority_test import MajorityFinding, judge_majority, projections

POOLED = 5
"""Number of a client's last updates whose mean is judged in addition while single updates are not clear of the
noise."""
CLEAR = 20.0  # clearness of the majority (see `MajorityFinding.clearness`) from which single updates suffice


@dataclass(frozen=True)
class ProvisionalBuffer:
    """A buffer with provisional verdicts. Rows are its updates except those that broke a certificate."""

    clients: Ints  # (n,) senders
    samples: Ints  # (n,) training samples of the senders
    staleness: Ints  # (n,) versions
    work: Floats | None  # (n,) share of a task's epochs; None: all are complete
    deltas: Vector  # (n, n_parameters) updates
    applied: Bools  # (n,) whether the update is aggregated
    factors: Floats  # (n,) factor in the aggregate; 0 if it is not aggregated


def revise(
    buffers: Iterable[ProvisionalBuffer], left_out: Bools, factors: Factors
) -> tuple[Vector | None, tuple[ProvisionalBuffer, ...]]:
    """Return the vector to add to the next model so that earlier `buffers` count as if the clients that are now left
    out had been left out then, (n_parameters,) float32 or None if no verdict changed; and the buffers as after that.
    `left_out`: (clients,). `factors`: the server's function, which gives the other updates more weight."""
    total: Vector | None = None
    revised = []
    for buffer in buffers:
        kept = ~left_out[buffer.clients]
        if not np.array_equal(kept, buffer.applied):
            settled = np.zeros(len(kept))
            if kept.any():
                work = None if buffer.work is None else buffer.work[kept]
                settled[kept] = factors(buffer.samples[kept], buffer.staleness[kept], work)
            moved = np.asarray((settled - buffer.factors).astype(np.float32) @ buffer.deltas)
            total = moved if total is None else total + moved
            buffer = replace(buffer, applied=kept, factors=settled)
        revised.append(buffer)
    return total, tuple(revised)


@dataclass(frozen=True)
class SpectralState:
    """State of the detector between buffers."""

    context: DefenceContext
    bank: Bank
    pool: Bank  # means of each client's last updates
    suspects: Bools  # (clients,) whether the client's updates stay left out until it goes along with the majority again
    banned: Bools  # (clients,) whether the client is banned
    is_open: bool = False  # whether verdicts are final: the gate is open
    provisional: tuple[ProvisionalBuffer, ...] = ()  # the buffers so far, while verdicts are provisional


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
    coverage: Annotated[float, Field(ge=0, le=1), MeasuredIn("share")] = 0.8
    """Share of the clients not banned that must have sent an update before verdicts are final (the gate opens); 0: no
    share, see `patience`."""
    patience: Annotated[float, Field(ge=0), MeasuredIn("updates per client")] = 5.0
    """Maximum number of updates per client not banned that the gate waits for until the majority is clear of the noise;
    all of them are stored. 0: the gate opens by coverage alone."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> SpectralState:
        none = np.zeros(context.clients, dtype=bool)
        return SpectralState(context, empty_bank(context.clients), empty_bank(context.clients, POOLED), none, none)

    def forget_client(self, state: SpectralState, client: int) -> SpectralState:
        one = np.arange(state.context.clients) == client
        banned, suspects = state.banned | one, state.suspects & ~one
        bank, pool = state.bank.forget(client), state.pool.forget(client)
        return replace(state, bank=bank, pool=pool, banned=banned, suspects=suspects)

    def judge(self, state: SpectralState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, SpectralState]:
        context, deltas = state.context, buffer.deltas
        own, against, broken, forged, reasons = check_certificates(
            context, buffer, state.bank, self.deviations, beside="sent along with one", within=True
        )
        out, struck = forged.copy(), broken.copy()
        bank, pool, finding, suspects = state.bank, state.pool, None, state.suspects
        along = np.full(len(buffer), np.nan)
        if context.root_gradient is not None:
            along = projections(deltas, context.root_gradient(buffer.current))
        for rows, products in _one_update_per_client(buffer.clients, ~forged, against, own):
            clients = buffer.clients[rows]
            added = clients, deltas[rows], buffer.base_versions[rows], along[rows], buffer.upload_std[rows]
            bank, pool = bank.add(*added, products), pool.add(*added)
            finding = _majority_finding(context, bank, pool)
            # Where noise blurs the majority, each buffer reveals a different part of the attackers.
            suspects = ((state.suspects & ~finding.cleared) | finding.against) & (not _is_clear(finding))
            out[rows], struck[rows] = finding.out[clients] | suspects[clients], finding.struck[clients]
            for row, client in zip(rows, clients, strict=True):
                reasons[row] = finding.reasons.get(int(client), "suspected before" if suspects[client] else "")
        notes = {"certificates": float(broken.sum())} | (finding.notes if finding else {})
        late: tuple[int, ...] = ()
        is_open, correction, provisional = state.is_open, None, state.provisional
        if not is_open:
            finding = finding or _majority_finding(context, bank, pool)
            left_out = finding.out | state.banned | suspects
            is_open = self._opens(state, bank, len(buffer), finding)
            correction, provisional = revise(provisional, left_out, context.factors)
            if is_open:
                # Clients of this buffer are struck for it and must not be struck twice for one result.
                remembered = np.isin(np.arange(context.clients), [one for held in provisional for one in held.clients])
                remembered[buffer.clients] = False
                late = tuple(np.flatnonzero(remembered & left_out & ~state.banned).tolist())
                provisional = ()
            else:
                struck &= broken
                provisional += (_provisional(context, buffer, ~out, ~forged),)
        verdict = Verdict(
            out,
            struck,
            correction=correction,
            late_strikes=late,
            details=tuple(reasons),
            remarks=(UNCHECKED_REMARK,) if context.compressed else (),
            notes=notes | {"gate_open": float(is_open)},
        )
        return verdict, SpectralState(context, bank, pool, suspects, state.banned, is_open, provisional)

    def _opens(self, state: SpectralState, bank: Bank, arrived: int, finding: MajorityFinding) -> bool:
        """Return whether verdicts are final from now on: the gate opens. `arrived`: number of updates of this buffer,
        which `bank` includes."""
        clients_left = state.context.clients - int(state.banned.sum())
        # The tolerance absorbs rounding of coverage * clients.
        if len(bank.present) < self.coverage * clients_left - 1e-9:
            return False
        remembered = arrived + sum(len(earlier.clients) for earlier in state.provisional)
        return finding.decided or remembered >= self.patience * clients_left


def _majority_finding(context: DefenceContext, bank: Bank, pool: Bank) -> MajorityFinding:
    """Return the finding on single updates, merged with that on the pool's means where these are clearer and single
    updates are not clear."""
    by_root = context.root_gradient is not None
    finding = judge_majority(bank, context.n_parameters, by_root=by_root)
    if _is_clear(finding):
        return finding
    pooled = judge_majority(pool, context.n_parameters, by_root=by_root)
    return finding.merge_pooled(pooled) if pooled.clearness > finding.clearness else finding


def _is_clear(finding: MajorityFinding) -> bool:
    """Return whether single updates suffice: their majority is clear enough, or has no common direction."""
    return finding.clearness >= CLEAR or bool(finding.notes.get("diffuse"))


def _provisional(context: DefenceContext, buffer: Buffer, applied: Bools, kept: Bools) -> ProvisionalBuffer:
    """Return the rows `kept` (n_updates,) of a buffer, of which those `applied` are aggregated."""
    factors, rows = np.zeros(len(buffer)), np.flatnonzero(kept)
    factors[applied] = context.factors_of(buffer, np.flatnonzero(applied))
    work = None if buffer.work is None else buffer.work[rows]
    known = buffer.clients[rows], buffer.samples[rows], buffer.staleness[rows], work, buffer.deltas[rows]
    return ProvisionalBuffer(*known, applied[rows], factors[rows])


def _one_update_per_client(clients: Ints, sound: Bools, against: Floats, own: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Yield the `sound` (n,) rows of a buffer in groups of one update per client: the first of each, then the second.
    The bank keeps one update per client, so each group is stored and judged before the next replaces it. Yields the
    rows (k,) of each group and their inner products (k, clients) with the bank once the group is stored. `against`: (n,
    clients) inner products with the bank before. `own`: (n, n) those of the rows with each other."""
    products = against.copy()
    left = np.flatnonzero(sound)
    while len(left):
        rows = left[np.sort(np.unique(clients[left], return_index=True)[1])]
        products[:, clients[rows]] = own[:, rows]
        yield rows, products[rows]
        left = np.setdiff1d(left, rows)
