"""Assumed: attackers are fewer than half, and no quarter of all clients is honest, alike and opposed to the others.
Where more than half of all clients are alike, a group apart from them is taken for attackers and left out, not banned.

The evidence detector bans only on statistical evidence, with a bounded error if noise is known, and asks no client for
scores. From the means of each client's last updates it guesses directions that many clients share (`directions`).
*Later* updates are measured along these directions: their noise is independent of a guess that was made before, even if
attackers see other updates of the buffer or choose their own. Gains along a direction are added up per client
(`gains`). They are judged once the honest side of the direction is certified (`side_test`, which states the
assumptions).

If the server has its own samples, the common descent of all their classes (`common_descent`) decides, because any
mixture of these classes goes along it: updates that do not are left out while most clients do. No guess bans a client
that goes along it. A second look is at what lies across it (`harm`): updates are left out that raise the loss of every
class by too much, and those that many clients send alike and that raise the loss of all samples together. Without
samples, updates are left out only where most clients send much the same (`likeness`). There, a group well apart from
these is left out too, with samples or without.

Certificates of lengths, and of similarity to earlier buffers, hold for any client data
(`asyncfl.defences.certificates`) and strike at once. They are not checked for compressed updates, which a remark says.
If two updates of one buffer are too similar, either may be the copy, so neither is flagged.

Until a direction judges the detector abstains: all updates are accepted unjudged and aggregated by the server's rule
or its `fallback`. They stay in the model: later updates were trained on it, and removing them did more harm than
keeping them.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.buffer import Buffer, DefenceContext
from asyncfl.defences.certificates import UNCHECKED_REMARK, check_certificates
from asyncfl.defences.client_means import ClientMeans, add_buffer, empty_means
from asyncfl.defences.detector import Detector, Verdict
from asyncfl.defences.distances import inner_products
from asyncfl.defences.evidence.directions import GUESSES, guess_directions, leave_one_out
from asyncfl.defences.evidence.gains import GainHistory, empty_history
from asyncfl.defences.evidence.harm import ClassDescents, HarmRecord, empty_record
from asyncfl.defences.evidence.likeness import compare_clients
from asyncfl.defences.evidence.side_test import SideResult, SideTest, combine_sides
from asyncfl.learning.common_descent import common_descent, unit_descents

NOTES = ("certified", "along", "needed", "missing_updates", "signal_to_noise", "power", "abstained")
"""Names of the numbers about each buffer, see `_notes`."""


@dataclass(frozen=True)
class Descent:
    """Descents of the server's own samples at a model."""

    model: bytes  # the model, whose array is on loan
    direction: Vector  # (n_parameters,) the common descent, of length 1 or 0
    signal: float  # see `common_descent`
    classes: ClassDescents


@dataclass(frozen=True)
class EvidenceState:
    """State of the detector between buffers."""

    context: DefenceContext
    means: ClientMeans
    histories: tuple[GainHistory, ...]
    """Gains along each guessed direction, preceded by those along the root set's descent if there is a root set."""
    banned: frozenset[int] = frozenset()
    descents: tuple[Descent, ...] = ()
    """Descents at the base models of the last buffer, most of which are those of the next one too."""
    harm: HarmRecord | None = None  # None: the server has no samples of its own


class Evidence(Detector):
    """Bans on evidence, if attackers are fewer than half and honest clients of no two or three opposed kinds.

    It leaves out updates that do not go along the common descent of the server's own samples (`defence.root_samples`)
    or that harm these samples; where clients are alike, also updates that do not go along with most, and groups apart
    from these. Otherwise it abstains. The error probability of a ban is bounded if the server knows the noise of
    uploads; otherwise the noise is estimated. Source: ours.
    """

    kind: Literal["evidence"] = "evidence"
    logged: ClassVar[tuple[str, ...]] = tuple(f"rounds.detector_{name}" for name in NOTES)
    abstains: ClassVar[bool] = True
    deviations: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 6.0
    """q: standard deviations of noise that a certificate tolerates."""
    sides: SideTest = SideTest()
    """Settings of the test that certifies a side of a direction and judges clients by it."""
    memory: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 4
    """Number of a client's last updates whose mean the directions are guessed from."""
    kept: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 32
    """Number of a client's last updates that count as evidence."""

    def start(self, context: DefenceContext, random: np.random.Generator) -> EvidenceState:
        number = (context.root_gradients is not None) + GUESSES
        history = empty_history(context.clients, self.kept)
        harm = None if context.root_gradients is None else empty_record(context.clients)
        return EvidenceState(context, empty_means(context.clients), (history,) * number, harm=harm)

    def forget_client(self, state: EvidenceState, client: int) -> EvidenceState:
        histories = tuple(history.forget(client) for history in state.histories)
        harm = None if state.harm is None else state.harm.forget(client)
        means, banned = state.means.forget(client), state.banned | {client}
        return replace(state, means=means, histories=histories, banned=banned, harm=harm)

    def judge(self, state: EvidenceState, buffer: Buffer, scores: Floats | None) -> tuple[Verdict, EvidenceState]:
        clients = buffer.clients
        own, against, struck, forged, reasons = check_certificates(state.context, buffer, state.means, self.deviations)
        sound = np.flatnonzero(~forged)
        descents = _descents_at(buffer.bases, state)
        histories = self._add_gains(state, buffer, sound, against, descents)
        likeness = compare_clients(state.means, state.context.n_parameters)
        standing = self._combined_result(state, histories, likeness.crowded)
        among, kept = own[np.ix_(sound, sound)], buffer.deltas if len(sound) == len(buffer) else buffer.deltas[sound]
        noise_std = buffer.upload_std[sound]
        means = add_buffer(state.means, clients[sound], kept, against[sound], among, noise_std, self.memory)
        out, unjudged = forged.copy(), ~forged
        if standing.judges:
            out |= standing.out[clients]
            struck |= standing.struck[clients] & ~forged
            unjudged &= np.isnan(standing.share[clients])
            for row in np.flatnonzero(standing.out[clients] & ~forged):
                reasons[row] = f"goes {standing.share[clients[row]]:.2f} of the usual way"
        for row in np.flatnonzero(likeness.stray[clients] & ~out):
            out[row], unjudged[row], reasons[row] = True, False, "stands apart from most clients, which are alike"
        harm = _add_harm(state, buffer, sound, means, descents)
        if harm is not None:
            harmful, crowded, share = harm.judge(likeness.crowded, len(state.banned))
            for row in np.flatnonzero((harmful | crowded)[clients] & ~out):
                out[row], unjudged[row], client = True, False, clients[row]
                each = f"harms every class of the server's samples by {share[client]:.2f} of a usual step"
                reasons[row] = each if harmful[client] else "raises the loss of the server's samples, as many alike do"
        verdict = Verdict(
            out,
            struck,
            unjudged=unjudged,
            details=tuple(reasons),
            remarks=_remarks(standing) + ((UNCHECKED_REMARK,) if state.context.compressed else ()),
            notes=_notes(standing, buffer, unjudged),
        )
        return verdict, replace(state, means=means, histories=histories, descents=descents, harm=harm)

    def _add_gains(
        self, state: EvidenceState, buffer: Buffer, sound: Ints, against: Floats, descents: tuple[Descent, ...]
    ) -> tuple[GainHistory, ...]:
        """Return the histories with the gains of the buffer's rows `sound` (k,), along directions that were guessed
        before these rows arrived. `against`: (n, clients) inner products of all rows with the clients' means.
        `descents`: those of the buffer's base models, if the server has its own samples."""
        histories, senders = list(state.histories), buffer.clients[sound]
        if descents:
            base_of = buffer.base_of[sound]
            along = inner_products(buffer.deltas, [one.direction for one in descents])[sound, base_of]
            signal = np.array([one.signal for one in descents])[base_of]
            seen, variance = signal > 0, (buffer.upload_std[sound] * signal) ** 2
            histories[0] = histories[0].add(senders[seen], (along * signal)[seen], signal[seen] ** 2, variance[seen])
        directions = guess_directions(state.means)
        products = against[sound]
        for guess, direction in enumerate(directions, start=int(bool(descents))):
            weights, length, signal = leave_one_out(direction, senders, state.means, state.context.n_parameters)
            along = np.einsum("ij,ij->i", products, weights) * signal / np.where(signal > 0, length, np.inf)
            seen, variance = signal > 0, (buffer.upload_std[sound] * signal) ** 2
            histories[guess] = histories[guess].add(senders[seen], along[seen], signal[seen] ** 2, variance[seen])
        return tuple(histories)

    def _combined_result(self, state: EvidenceState, histories: tuple[GainHistory, ...], crowded: Bools) -> SideResult:
        """Return the combined result of all directions that judge; without one, the result of the direction nearest to
        certification. The common descent, which accounts for honest clients with other labels, decides alone if it
        judges, and no guess strikes a client that goes along it; a guess may strike others. `crowded`: (clients,) see
        `Likeness`."""
        number, rooted = len(histories), state.context.root_gradients is not None
        root = self.sides.judge(histories[0], state.banned, number, rooted=True) if rooted else None
        if root is not None and root.judges:
            # The samples clear honest clients, so a guess may count on the median of all for the others.
            everyone = np.ones(state.context.clients, dtype=bool)
            guesses = [self.sides.judge(one, state.banned, number, crowded=everyone) for one in histories[1:]]
            against = np.any([one.struck for one in guesses], axis=0) & (root.share < 0)
            return replace(root, struck=root.struck | against, out=root.out | against)
        guesses = [self.sides.judge(one, state.banned, number, crowded=crowded) for one in histories[rooted:]]
        if root is not None:
            guesses = [replace(one, struck=one.struck & ~(root.share > 0)) for one in guesses]
        if judging := [one for one in guesses if one.judges]:
            return combine_sides(judging)
        return max(guesses, key=lambda one: (bool(one.obstacle), one.along))


def _descents_at(bases: tuple[Vector, ...], state: EvidenceState) -> tuple[Descent, ...]:
    """Return the descents at each of `bases`, computed anew only for those that the last buffer did not have; none if
    the server has no samples of its own."""
    gradients = state.context.root_gradients
    if gradients is None:
        return ()
    known = {one.model: one for one in state.descents}
    models = [base.tobytes() for base in bases]

    def descent_at(model: bytes, base: Vector) -> Descent:
        each = gradients(base)
        return Descent(model, *common_descent(each), ClassDescents(*unit_descents(each)))

    return tuple(known.get(model) or descent_at(model, base) for model, base in zip(models, bases, strict=True))


def _add_harm(
    state: EvidenceState, buffer: Buffer, sound: Ints, means: ClientMeans, descents: tuple[Descent, ...]
) -> HarmRecord | None:
    """Return the record with the buffer's rows `sound` (k,), each of which is in its client's mean; None if the server
    has no samples of its own."""
    harm = state.harm
    for base, descent in enumerate(descents):
        rows = sound[buffer.base_of[sound] == base]
        clients = buffer.clients[rows]
        if harm is not None and len(rows) and len(descent.classes.lengths):
            last = [row for row in (means.rows[client] for client in clients) if row is not None]
            noise_std = buffer.upload_std[rows]
            harm = harm.add(clients, buffer.deltas[rows], last, noise_std, means.noise_std[clients], descent.classes)
    return harm


ROUND_NUMBERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Numbers of updates as reported to the user; the largest is the longest worthwhile wait."""


def _remarks(standing: SideResult) -> tuple[str, ...]:
    """Return the reason why the detector abstains, as a tuple of one text; an empty tuple if it does not abstain."""
    if standing.judges:
        return ()
    reason = standing.obstacle
    if not reason and standing.missing > ROUND_NUMBERS[-1]:
        reason = "no direction is known that more than half of all clients share"
    elif not reason:
        about = next(number for number in ROUND_NUMBERS if number >= standing.missing)
        reason = f"not enough signal: needs about {about} more updates per client"
    return (f"the detector abstained: {reason}",)


def _notes(standing: SideResult, buffer: Buffer, unjudged: Bools) -> dict[str, float]:
    """Return the numbers about a buffer, by name. In the order of `NOTES`: whether a side is certified; clients known
    to go along; clients required; further updates per client until then; length of the common step over that of an
    update's noise; share of the clients not banned that would be left out by now if they sent the opposite; share of
    the buffer unjudged."""
    noise = float(buffer.upload_std.mean()) * len(buffer.current) ** 0.5
    ratio = standing.signal / noise if noise else float("nan")
    known = (float(standing.certified), float(standing.along), float(standing.needed), standing.missing, ratio)
    return dict(zip(NOTES, (*known, standing.power, float(unjudged.mean())), strict=True))
