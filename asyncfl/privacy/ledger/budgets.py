"""Privacy budgets (`stop_at`): spending of each client, and whether it can afford another upload."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.client_state import ClientState, ClientStates
from asyncfl.base.errors import Fault
from asyncfl.privacy.accounting.accountants import Accountant, epsilon_by
from asyncfl.privacy.accounting.mechanism_events import MECHANISMS, MechanismEvent, MechanismName
from asyncfl.privacy.ledger.releases import answer_release, share_of, upload_release, usable_norm
from asyncfl.privacy.release import Contribution, PrivacyContext, Release
from asyncfl.privacy.scheme import Scheme, State
from asyncfl.privacy.stop_at import StopAt

TOLERANCE = 1e-9
"""Relative tolerance of comparisons with a budget, so that rounding does not cost an upload."""


_UPLOADS, _ANSWERS, _CLAIMED, _KINDS, _TURN = (
    f"budget_{name}" for name in ("uploads", "answers", "claimed", "kinds", "turn")
)
"""Names of a client's spending in its state, and of the turn that the last `affords` call asked about."""


@dataclass(frozen=True, slots=True)
class _Spending:
    """Releases that one client has made."""

    uploads: int = 0
    answers: int = 0  # number of times that the client returned scores
    claimed: float = 0.0  # sum of the claimed epsilons of its releases
    kinds: Counter[tuple[MechanismName, float, float]] = field(default_factory=Counter)
    """(distribution, multiplier, sampling rate) -> number of such releases, > 0."""

    def plus(self, release: Release) -> _Spending:
        # Rounded, so that equal multipliers stay equal despite rounding errors of noise and sensitivity.
        kind = release.distribution, float(f"{release.multiplier:.12g}"), release.rate
        kinds = self.kinds + Counter({kind: release.count})
        return replace(self, claimed=self.claimed + release.epsilon, kinds=kinds)

    @classmethod
    def of(cls, state: ClientState) -> _Spending:
        """Return the releases that a client's state counts."""
        if _KINDS not in state.arrays:
            return cls()
        rows = state.arrays[_KINDS].tolist()
        kinds = Counter({(MECHANISMS[int(one)], z, rate): int(count) for one, z, rate, count in rows})
        found = state.scalars
        return cls(int(found[_UPLOADS]), int(found[_ANSWERS]), float(found[_CLAIMED]), kinds)

    @property
    def state(self) -> ClientState:
        """The entries of a client's state that count these releases."""
        rows = [(MECHANISMS.index(one), z, rate, count) for (one, z, rate), count in self.kinds.items()]
        scalars = {_UPLOADS: self.uploads, _ANSWERS: self.answers, _CLAIMED: self.claimed}
        return ClientState({_KINDS: np.array(rows, np.float64).reshape(-1, 4)}, scalars)


class BudgetTracker:
    """Budgets of all clients during one seed. Uploads of attackers count as if they had the noise of honest clients."""

    def __init__(
        self,
        stop_at: StopAt,
        scheme: Scheme,
        context: PrivacyContext,
        samples: NDArray[np.integer],
        state: State | None = None,
        by_models: bool | None = False,
        states: ClientStates | None = None,
    ) -> None:
        """Create a tracker. `samples`: (clients,) training samples; `state`: records trained tasks; `by_models`:
        whether updates count as a model reveals them (`StopAt.counts_models`); `states`: of the clients, which hold
        their spending, None for new ones."""
        self.stop_at, self.scheme, self.context, self.samples = stop_at, scheme, context, samples
        self.state = scheme.start(context) if state is None else state
        self.by_models = bool(by_models)
        self._stated = stated = scheme.upload_guarantee(context) or scheme.model_guarantee(context)
        self.delta = stop_at.delta if stop_at.delta is not None else 0.0 if stated is None else stated.delta
        self._norm = usable_norm(scheme, context, None)
        self._limit = stop_at.epsilon * (1 + TOLERANCE)
        self.states = ClientStates() if states is None else states
        self._next: dict[int, tuple[int, Release]] = {}

    def affords(self, client: int, turn: int) -> bool:
        """Return whether the upload from task number `turn` of the client stays within its budget.

        Stores that upload, which `charge_upload` counts and `charge_scores` leaves room for. Ask before the task begins
        and after all earlier tasks were trained.
        """
        self._next[client] = turn, self.release(client, turn)
        self.states.update(client, ClientState({}, {_TURN: turn}))
        return self.would_spend(client) <= self._limit

    def resume(self, client: int) -> bool:
        """Repeat the last `affords` call of a client by its state, in another process perhaps; the first if there was
        none."""
        return self.affords(client, int(self.states.of(client).scalars.get(_TURN, 0)))

    def charge_upload(self, client: int, epochs: int | None = None) -> None:
        """Count the upload of the last `affords` call. `epochs`: local epochs behind it; None: all epochs of a task."""
        turn, release = self._next.pop(client)
        sent = self._sent_by(client).plus(release if epochs is None else self.release(client, turn, epochs))
        self.states.update(client, replace(sent, uploads=sent.uploads + 1).state)

    def charge_scores(self, client: int, models: int) -> bool:
        """Count the scores of `models` models if the client can afford them and the upload of the last `affords` call,
        and return whether it can. Scores without noise cost nothing (the ledger flags them)."""
        if self.scheme.scores is None:
            return True
        one = answer_release(self.scheme.scores, self._stated, models, int(self.samples[client]), self.context.personal)
        sent = self._sent_by(client).plus(one)
        after = sent.plus(self._next[client][1]) if client in self._next else sent
        if self._epsilon(after) > self._limit:
            return False
        self.states.update(client, replace(sent, answers=sent.answers + 1).state)
        return True

    def release(self, client: int, turn: int, epochs: int | None = None) -> Release:
        """Return one upload as accountants see it, or an upper bound on what a model reveals."""
        epsilon = self.state.epsilon(client, turn)
        one = Contribution(client, int(self.samples[client]), turn, epsilon, epochs=epochs)
        release = upload_release(self.scheme, self.context, self._norm, one)
        # Its own noise also protects it inside models, and the noise of others only adds to that.
        return self._in_models if self.by_models and not release.std else release

    @cached_property
    def _in_models(self) -> Release:
        multiplier = self.scheme.model_multiplier(self.context) if self.context.fixed_weights else None
        distribution = self.scheme.model_noise(self.context, self._norm).distribution
        std = (multiplier or 0.0) * (math.sqrt(2) if distribution == "laplace" else 1.0)
        return Release(distribution, std, 1.0, 1, share_of(self.scheme.model_guarantee(self.context)))

    def spent(self, client: int) -> float:
        """Return the epsilon of all releases of the client by the accountant of the budget."""
        return self._epsilon(self._sent_by(client))

    def would_spend(self, client: int) -> float:
        """Return the epsilon including the upload of the last `affords` call."""
        return self._epsilon(self._sent_by(client).plus(self._next[client][1]))

    def describe_spending(self, client: int) -> str:
        """Return a text that explains why the client stops, after `affords` returned false."""
        sent = self._sent_by(client)
        scores = f" and {sent.answers} answers of scores, one more upload" if sent.answers else ", one more"
        return (
            f"epsilon {self.spent(client):.6g} of {self.stop_at.epsilon:g} spent on {sent.uploads} uploads"
            f"{scores} would make it {self.would_spend(client):.6g}"
        )

    def _sent_by(self, client: int) -> _Spending:
        return _Spending.of(self.states.of(client))

    def _epsilon(self, sent: _Spending) -> float:
        if self.stop_at.accountant == "naive":
            return sent.claimed
        return _composed(self.stop_at.accountant, frozenset(sent.kinds.items()), self.delta)


@lru_cache(maxsize=4096)  # most clients make the same releases
def _composed(
    accountant: Accountant, kinds: frozenset[tuple[tuple[MechanismName, float, float], int]], delta: float
) -> float:
    if delta == 0:
        # Only pure epsilons count, and they add up by every accountant.
        return math.fsum(count / z if kind == "laplace" and z else math.inf for (kind, z, _), count in kinds)
    parts = [MechanismEvent(kind, z, count, rate) for (kind, z, rate), count in sorted(kinds)]
    found = epsilon_by(accountant, parts, delta)
    return math.inf if found is None else found


def stop_faults(
    scheme: Scheme,
    context: PrivacyContext,
    noise_known: bool = True,
    by_models: bool | None = False,
    whole: bool = True,
) -> Iterator[Fault]:
    """Yield a fault for a budget that cannot be kept, or that does not allow any client a single upload; fields are
    relative to the scheme. `noise_known` false: the amount of noise is measured later, so only missing noise is a
    fault. `whole` false: uploads are compressed."""
    stop_at = scheme.stop_at
    if stop_at is None:
        return
    samples = np.full(context.clients, context.smallest_samples)
    tracker = BudgetTracker(stop_at, scheme, context, samples, by_models=by_models)
    if not stop_at.adversary_is_server and (fault := _models_fault(tracker, whole)) is not None:
        yield fault
        return
    # Clients with equal budgets make the same first upload.
    first = {tracker.state.epsilon(client, 0): client for client in reversed(range(context.clients))}
    if any(tracker.affords(client, 0) for client in first.values()):
        return
    least = min(map(tracker.would_spend, first.values()))
    delta = "" if stop_at.accountant == "naive" else f" and delta {tracker.delta:g}"
    if math.isinf(least):
        yield Fault(
            "stop_at",
            "no client could upload even once: with this scheme one upload has an infinite epsilon by accountant "
            f"{stop_at.accountant}{delta}, got a budget of {stop_at.epsilon:g}; give uploads noise or leave out "
            "privacy.stop_at",
        )
    elif noise_known:
        yield Fault(
            "stop_at.epsilon",
            # Rounded up, so that the printed number is sufficient.
            f"must be at least {least * (1 + 1e-5):.6g}, the epsilon of one upload by accountant "
            f"{stop_at.accountant}{delta}, got {stop_at.epsilon:g}; no client could upload even once",
        )


def _models_fault(tracker: BudgetTracker, whole: bool) -> Fault | None:
    """Return why clients cannot bound in advance what models reveal; None if they can."""
    scheme, context, stop_at = tracker.scheme, tracker.context, tracker.stop_at
    one = Contribution(0, context.smallest_samples, epsilon=tracker.state.epsilon(0, 0))
    own, server = scheme.upload_noise(context, tracker._norm, one), scheme.model_noise(context, tracker._norm)
    if own.std > 0 and server.std > 0:
        adds_up = own.distribution == server.distribution == "gaussian" and own.count == 1 and not own.in_training
        if not (adds_up and whole):
            return Fault(
                "stop_at.adversary",
                f"{stop_at.adversary} has no budget if clients and server both add noise and the sum is not Gaussian "
                "(Laplace, in training, or on compressed uploads); use adversary: server",
            )
    if tracker.by_models and own.std == 0:
        if not context.fixed_weights:
            return Fault(
                "stop_at.of",
                f"{stop_at.of} cannot be bounded where weights of updates depend on their values (the aggregation "
                "rule, the detector or protocol.aggregation), because the server's noise covers fixed weights only; "
                "use noise on uploads, or a linear rule without a detector and aggregation delta or mix",
            )
        if scheme.model_multiplier(context) is None:
            return Fault(
                "stop_at.of",
                f"{stop_at.of} counts what models reveal about clients, which this scheme does not bound; use a scheme "
                "with noise on uploads, or with server noise in proportion to the weight of a client",
            )
        if not whole:
            return Fault(
                "stop_at.of",
                f"{stop_at.of} needs uploads within their clip norm, because only the server adds noise; leave out "
                "compression",
            )
    return None
