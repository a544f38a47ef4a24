"""Privacy budgets (`stop_at`): spending of each client, and whether it can afford another upload.

Sums are kept per client, so a question costs the same after a thousand uploads as after one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.privacy.accounting.accountants import epsilon_by
from asyncfl.privacy.accounting.events import MechanismEvent, MechanismName
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, squared_mu_of
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.ledger.releases import answer_release, share_of, upload_release, usable_norm
from asyncfl.privacy.release import Release
from asyncfl.privacy.scheme import Scheme, State
from asyncfl.privacy.stop_at import StopAt

TOLERANCE = 1e-9
"""Relative tolerance of comparisons with a budget, so that rounding does not cost an upload."""


@dataclass(slots=True)
class _ClientSpending:
    """Releases that one client has made."""

    uploads: int = 0
    answers: int = 0  # number of times that the client returned scores
    claimed: float = 0.0  # sum of the claimed epsilons of its releases
    squared_mu: float = 0.0  # sum of z^-2 over its Gaussian releases
    kinds: Counter[tuple[MechanismName, float]] = field(default_factory=Counter)
    """(distribution, multiplier) -> number of such releases."""

    def add(self, release: Release) -> _ClientSpending:
        # Rounded, so that equal multipliers stay equal despite rounding errors of noise and sensitivity.
        z = float(f"{release.multiplier:.12g}")
        self.claimed += release.epsilon
        if release.distribution == "gaussian" and release.count:
            self.squared_mu += squared_mu_of(z, release.count)
        self.kinds[release.distribution, z] += release.count
        return self

    @property
    def gaussian(self) -> bool:
        return all(kind == "gaussian" for kind, _ in self.kinds)

    def copy(self) -> _ClientSpending:
        return replace(self, kinds=self.kinds.copy())


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
    ) -> None:
        """Create a tracker. `samples`: (clients,) training samples; `state`: records trained tasks; `counted` None: as
        for the server."""
        self.stop_at = stop_at
        self.scheme = scheme
        self.context = context
        self.samples = samples
        self.state = scheme.start(context) if state is None else state
        self.by_models = bool(by_models)
        self._stated = stated = scheme.upload_guarantee(context) or scheme.model_guarantee(context)
        self.delta = stop_at.delta if stop_at.delta is not None else 0.0 if stated is None else stated.delta
        self._norm = usable_norm(scheme, context, None)
        self._sent: dict[int, _ClientSpending] = {}
        self._next: dict[int, Release] = {}
        self._turn: dict[int, int] = {}
        self._known: dict[frozenset[tuple[tuple[MechanismName, float], int]], float] = {}

    def affords(self, client: int, turn: int) -> bool:
        """Return whether the upload from task number `turn` of the client stays within its budget.

        Stores that upload, which `charge_upload` counts and `charge_scores` leaves room for. Ask before the task begins
        and after all earlier tasks were trained.
        """
        self._next[client], self._turn[client] = self.release(client, turn), turn
        return self._within(self._sent_by(client).copy().add(self._next[client]))

    def charge_upload(self, client: int, epochs: int | None = None) -> None:
        """Count the upload of the last `affords` call. `epochs`: local epochs behind it; None: all epochs of a task."""
        sent, asked = self._sent.setdefault(client, _ClientSpending()), self._next.pop(client)
        release = asked if epochs is None else self.release(client, self._turn[client], epochs)
        sent.add(release).uploads += 1

    def charge_scores(self, client: int, models: int) -> bool:
        """Count the scores of `models` models if the client can afford them and the upload of the last `affords` call,
        and return whether it can. Scores without noise cost nothing (the ledger flags them)."""
        if self.scheme.scores is None:
            return True
        one = answer_release(self.scheme.scores, self._stated, models, int(self.samples[client]), self.context.personal)
        after = self._sent_by(client).copy().add(one)
        pending = self._next.get(client)
        if not self._within(after if pending is None else after.copy().add(pending)):
            return False
        after.answers += 1
        self._sent[client] = after
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
        stated, multiplier = self.scheme.model_guarantee(self.context), self.scheme.model_multiplier(self.context)
        if not self.context.fixed_weights:
            multiplier = None
        distribution = self.scheme.model_noise(self.context, self._norm).distribution
        std = (0.0 if multiplier is None else multiplier) * (math.sqrt(2) if distribution == "laplace" else 1.0)
        return Release(distribution, std, 1.0, 1, share_of(stated))

    def _within(self, sent: _ClientSpending) -> bool:
        if sent.gaussian and self.delta > 0 and self.stop_at.accountant == "exact":
            return sent.squared_mu <= self._largest_squared_mu
        return self._epsilon(sent) <= self._limit

    def spent(self, client: int) -> float:
        """Return the epsilon of all releases of the client by the accountant of the budget."""
        return self._epsilon(self._sent_by(client))

    def would_spend(self, client: int) -> float:
        """Return the epsilon including the upload of the last `affords` call."""
        return self._epsilon(self._sent_by(client).copy().add(self._next[client]))

    def describe_spending(self, client: int) -> str:
        """Return a text that explains why the client stops, after `affords` returned false."""
        sent = self._sent_by(client)
        scores = f" and {sent.answers} answers of scores, one more upload" if sent.answers else ", one more"
        return (
            f"epsilon {self.spent(client):.6g} of {self.stop_at.epsilon:g} spent on {sent.uploads} uploads"
            f"{scores} would make it {self.would_spend(client):.6g}"
        )

    def _sent_by(self, client: int) -> _ClientSpending:
        return self._sent.get(client) or _ClientSpending()

    @cached_property
    def _limit(self) -> float:
        return self.stop_at.epsilon * (1 + TOLERANCE)

    @cached_property
    def _largest_squared_mu(self) -> float:
        return squared_mu_of(analytic_multiplier(self._limit, self.delta))

    def _epsilon(self, sent: _ClientSpending) -> float:
        if self.stop_at.accountant == "naive":
            return sent.claimed
        if any(z == 0 and count for (_, z), count in sent.kinds.items()):
            return math.inf
        key = frozenset(sent.kinds.items())
        if key not in self._known:
            self._known[key] = self._composed(sent)
        return self._known[key]

    def _composed(self, sent: _ClientSpending) -> float:
        if self.delta == 0:
            # At delta 0 only pure epsilons count, and they add up by every accountant.
            each = (count / z if kind == "laplace" else math.inf for (kind, z), count in sent.kinds.items() if count)
            return math.fsum(each)
        parts = [MechanismEvent(kind, z, count) for (kind, z), count in sorted(sent.kinds.items())]
        if sent.gaussian and self.stop_at.accountant in ("exact", "rdp"):
            parts = [MechanismEvent("gaussian", sent.squared_mu**-0.5)] if sent.squared_mu else []
        accountant = "exact" if self.stop_at.accountant == "naive" else self.stop_at.accountant
        found = epsilon_by(accountant, parts, self.delta)
        return math.inf if found is None else found


def stop_faults(
    scheme: Scheme,
    context: PrivacyContext,
    noise_known: bool = True,
    by_models: bool | None = False,
    whole: bool = True,
) -> Iterator[Fault]:
    """Yield a fault for a budget that cannot be kept, or that does not allow any client a single upload.

    Field names are relative to the scheme. `noise_known` false: the amount of noise is measured later, so only missing
    noise is a fault. `whole` false: uploads are compressed.
    """
    stop_at = scheme.stop_at
    if stop_at is None:
        return
    samples = np.full(context.clients, context.smallest_samples)
    tracker = BudgetTracker(stop_at, scheme, context, samples, by_models=by_models)
    if not stop_at.adversary_is_server and (fault := _models_fault(tracker, whole)) is not None:
        yield fault
        return
    first: dict[float | None, float] = {}
    for client in range(context.clients):
        # Clients with equal budgets make the same first upload.
        epsilon = tracker.state.epsilon(client, 0)
        if epsilon not in first:
            if tracker.affords(client, 0):
                return
            first[epsilon] = tracker.would_spend(client)
    least = min(first.values())
    delta = "" if stop_at.accountant == "naive" else f" and delta {tracker.delta:g}"
    if math.isinf(least):
        way_out = "give uploads noise or leave out privacy.stop_at"
        yield Fault(
            "stop_at",
            "no client could upload even once: with this scheme one upload has an infinite epsilon by accountant "
            f"{stop_at.accountant}{delta}, got a budget of {stop_at.epsilon:g}; {way_out}",
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


def stop_notes(scheme: Scheme, leaks: Collection[str] = ()) -> list[str]:
    """Return sentences about the budgets that readers of the results must see. `leaks`: see `Scenario.leaks`."""
    if scheme.stop_at is None:
        return []
    stop_at = scheme.stop_at
    notes = [f"stop_at: clients send no upload that would exceed {stop_at}"]
    if stop_at.adversary == "eavesdropper":
        notes.append(
            "stop_at: only what models may reveal about clients counts, not other messages that a tap overhears"
            if stop_at.of == "models"
            else "stop_at: every message on a tapped link counts as overheard, since no client knows which ones were"
        )
    if stop_at.adversary == "curious":
        notes.append(
            "stop_at: every model counts as sent to curious clients, since no client knows which clients receive it"
        )
    if not scheme.bounds_uploads:
        notes.append("stop_at: rejecting an update that is not finite reveals this fact, which no budget covers")
    notes += [f"stop_at: {flag}, a release that no budget covers" for flag in sorted(leaks)]
    if scheme.needs_every_task:
        notes.append("stop_at: the time at which a client stops depends on its losses, a release that no ledger covers")
    return notes
