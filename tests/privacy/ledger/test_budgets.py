"""Budgets at which clients stop: their scope, the cost of an upload by each accountant, and the last affordable one."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.base.errors import Fault
from asyncfl.privacy import (
    AdaptiveBudgets,
    Contribution,
    DpFedAvg,
    GaussianUpload,
    Mechanisms,
    Nbafl,
    Noise,
    PrivacyContext,
    Scheme,
    State,
)
from asyncfl.privacy.accounting import MechanismEvent, epsilons_of
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.budgets import BudgetTracker, stop_faults
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.scheme import stop_notes
from asyncfl.privacy.stop_at import StopAt

CONTEXT = PrivacyContext(
    clients=3, participants=3, rounds=10, smallest_samples=100, exposures=1, batch_size=20, epochs=2
)
SAMPLES = np.array([100, 100, 200])


def budget_tracker(scheme: Scheme, samples: Any = SAMPLES, context: PrivacyContext = CONTEXT) -> BudgetTracker:
    assert scheme.stop_at is not None
    return BudgetTracker(scheme.stop_at, scheme, context, samples, scheme.start(context))


def allowed(meter: BudgetTracker, client: int = 0, most: int = 200) -> int:
    """Uploads that the client sends before it stops."""
    for turn in range(most):
        if not meter.affords(client, turn):
            return turn
        meter.charge_upload(client)
    return most


def safl(**stop_at: Any) -> GaussianUpload:
    return GaussianUpload(epsilon=6, stop_at=stop_at)


@pytest.mark.parametrize("uploads", [1, 2, 5, 10, 49])
def test_a_budget_that_is_reached_exactly_still_allows_the_upload(uploads: int) -> None:
    z = 4.8448053 / 6
    exact = upload_release(GaussianUpload(epsilon=6), CONTEXT, None, Contribution(0, 100))
    assert exact.multiplier == pytest.approx(z)
    epsilon = exact_epsilon(uploads / exact.multiplier**2, 1e-5)
    every = epsilons_of([MechanismEvent("gaussian", exact.multiplier, uploads)], 1e-5)
    spent = {"exact": epsilon, "rdp": every.rdp, "basic": every.basic, "naive": 6 * uploads}
    for accountant, whole in spent.items():
        assert allowed(budget_tracker(safl(epsilon=whole, accountant=accountant))) == uploads
        assert allowed(budget_tracker(safl(epsilon=whole * (1 - 1e-6), accountant=accountant))) == uploads - 1


def test_each_client_has_its_own_budget() -> None:
    meter = budget_tracker(safl(epsilon=16))
    assert allowed(meter, 1) == 5
    assert "on 5 uploads" in meter.describe_spending(1)
    assert meter.spent(1) == pytest.approx(15.04, abs=5e-3)
    assert meter.would_spend(1) > 16
    assert meter.spent(0) == 0
    assert meter.affords(0, 0)


def test_pure_laplace_epsilons_add_up() -> None:
    client = {"kind": "laplace", "epsilon": 0.5}
    for accountant in ("exact", "rdp", "basic", "naive"):
        scheme = Mechanisms(client=client, stop_at={"epsilon": 2.0, "accountant": accountant})
        assert allowed(budget_tracker(scheme)) == 4, accountant
    loose = Mechanisms(client={"kind": "laplace", "epsilon": 0.1}, stop_at={"epsilon": 4.221, "delta": 1e-5})
    assert allowed(budget_tracker(loose)) == 100, "b = 10, T = 100: 4.22035 by loss distributions"
    renyi = Mechanisms(
        client={"kind": "laplace", "epsilon": 0.1}, stop_at={"epsilon": 4.533, "delta": 1e-5, "accountant": "rdp"}
    )
    assert allowed(budget_tracker(renyi)) == 100, "4.53269 by Renyi accounting"


@given(st.lists(st.floats(0.3, 30), min_size=1, max_size=12), st.sampled_from(["exact", "rdp", "basic"]))
def test_uploads_of_varying_cost_are_sent_exactly_while_they_fit(epsilons: list[float], accountant: Any) -> None:
    """Whatever each upload costs, the next is sent if and only if all of them together stay within."""

    class Budgets(State):
        def epsilon(self, client: int, turn: int) -> float:
            return epsilons[turn]

    class Changing(GaussianUpload):
        def start(self, context: PrivacyContext) -> State:
            return Budgets()

        def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
            sensitivity = 2 / contribution.samples
            return Noise(sensitivity * 4.8448053 / float(contribution.epsilon or 0), sensitivity)

    scheme = Changing(epsilon=1, stop_at={"epsilon": 20.0, "accountant": accountant})
    meter, parts = budget_tracker(scheme), []
    for turn, epsilon in enumerate(epsilons):
        after = [*parts, MechanismEvent("gaussian", 4.8448053 / epsilon)]
        found = getattr(epsilons_of(after, 1e-5), accountant)
        assert meter.affords(0, turn) == (found <= 20)
        if found > 20:
            return
        meter.charge_upload(0)
        parts = after
        assert meter.spent(0) == pytest.approx(found, rel=1e-6)


def test_the_next_adaptive_upload_costs_the_budget_of_the_last_loss() -> None:
    """sum of claims: 4 + 4 + 5.8 = 13.8, one more of 5.8 is 19.6."""
    for epsilon, uploads in ((13.8, 3), (13.79, 2), (19.6, 4)):
        scheme = AdaptiveBudgets(budgets=(4, 4, 12), stop_at={"epsilon": epsilon, "accountant": "naive"})
        meter = budget_tracker(scheme)
        sent = 0
        for turn, loss in enumerate((2.3, 0.5, 0.5, 0.5, 0.5)):
            if not meter.affords(0, turn):
                break
            one = Contribution(0, 100, turn, meter.state.epsilon(0, turn))
            meter.state.record_training(one, loss, 1.0)
            meter.charge_upload(0)
            sent += 1
        assert sent == uploads
    assert meter.affords(2, 0), "others have budgets of their own"


NOISELESS = [
    GaussianUpload(epsilon=math.inf),
    DpFedAvg(noise_multiplier=0.0),
    DpFedAvg(noise_multiplier=1.0, noise_at="server"),
    Mechanisms(server={"kind": "gaussian", "epsilon": 1.0}),
    Nbafl(epsilon=math.inf),
    AdaptiveBudgets(budgets=(math.inf,) * 3),
]


@pytest.mark.parametrize("scheme", NOISELESS, ids=lambda scheme: scheme.kind)
@pytest.mark.parametrize("accountant", ["exact", "rdp", "basic", "naive"])
def test_a_budget_without_upload_noise_is_a_fault(scheme: Scheme, accountant: Any) -> None:
    stopping = scheme.model_copy(update={"stop_at": StopAt(epsilon=1e6, accountant=accountant)})
    (fault,) = stop_faults(stopping, CONTEXT, noise_known=False)
    assert fault.field == "stop_at"
    assert "no client could upload even once" in fault.message
    assert "give uploads noise" in fault.message


def test_a_budget_below_one_upload_is_a_fault() -> None:
    assert list(stop_faults(safl(epsilon=5), CONTEXT)) == [
        Fault(
            "stop_at.epsilon",
            "must be at least 5.61787, the epsilon of one upload by accountant exact and delta 1e-05, got 5; no "
            "client could upload even once",
        )
    ]
    assert list(stop_faults(safl(epsilon=5), CONTEXT, noise_known=False)) == []
    assert list(stop_faults(safl(epsilon=5.61787), CONTEXT)) == []
    assert list(stop_faults(GaussianUpload(epsilon=6), CONTEXT)) == []


def test_notes_name_the_budget() -> None:
    assert stop_notes(GaussianUpload(epsilon=6)) == []
    clipped = DpFedAvg(noise_multiplier=1.0, stop_at=StopAt(epsilon=20))
    assert stop_notes(clipped) == ["stop_at: clients send no upload that would exceed epsilon 20 (exact)"]
    assert "rejecting" in stop_notes(safl(epsilon=20))[1]
    adaptive = AdaptiveBudgets(budgets=(4,), stop_at={"epsilon": 20, "delta": 1e-6})
    assert len(stop_notes(adaptive)) == 3
    taps = stop_notes(DpFedAvg(noise_multiplier=1.0, stop_at=StopAt(epsilon=20, adversary="eavesdropper")))
    assert "counts as overheard" in taps[1]
    assert "epsilon 20 (exact, delta 1e-06)" in stop_notes(adaptive)[0]


def test_scores_count_towards_the_budget_and_leave_room_for_the_next_upload() -> None:
    """Scores of one model on 100 samples with std .01 are one Gaussian release with multiplier 1."""
    scheme = GaussianUpload(epsilon=6, scores={"std": 0.01}, stop_at={"epsilon": 1.0})
    z = upload_release(scheme, CONTEXT, None, Contribution(0, 100)).multiplier
    whole = float(exact_epsilon(z**-2 + 3, 1e-5))
    meter = budget_tracker(scheme.model_copy(update={"stop_at": StopAt(epsilon=whole)}))
    assert meter.affords(0, 0)
    assert [meter.charge_scores(0, 1) for _ in range(4)] == [True, True, True, False]
    meter.charge_upload(0)
    assert meter.spent(0) == pytest.approx(whole)
    assert not meter.affords(0, 1)
    assert meter.describe_spending(0).startswith(f"epsilon {whole:.6g} of {whole:g} spent on 1 uploads and 3 answers")


def test_an_update_without_noise_counts_by_the_servers_multiplier() -> None:
    """DP-FedAvg at the server, replace: multiplier z/2 per version for an adversary that reads all models."""
    stop_at = StopAt(epsilon=float(exact_epsilon(5 * (2 / 4.0) ** 2, 1e-5)), adversary="public", of="models")
    scheme = DpFedAvg(noise_multiplier=4.0, noise_at="server", stop_at=stop_at)
    scope = stop_at.counts_models(holds_uploads=False)
    assert allowed(BudgetTracker(stop_at, scheme, CONTEXT, SAMPLES, by_models=scope)) == 5
    assert list(stop_faults(scheme, CONTEXT, by_models=scope)) == []
    (compressed,) = stop_faults(scheme, CONTEXT, by_models=scope, whole=False)
    assert (compressed.field, "leave out compression" in compressed.message) == ("stop_at.of", True)
    gaussian = {"kind": "gaussian", "epsilon": 1.0}
    both = Mechanisms(client=gaussian, server=gaussian, stop_at=StopAt(epsilon=10.0, adversary="public", of="models"))
    assert list(stop_faults(both, CONTEXT, by_models=scope)) == []


@pytest.mark.parametrize(
    ("adversary", "of", "holds_uploads", "by_models"),
    [
        ("server", "uploads", False, False),
        ("both", "all", False, False),
        ("eavesdropper", "uploads", False, False),
        ("eavesdropper", "models", True, True),
        ("eavesdropper", "all", True, False),
        ("eavesdropper", "all", False, True),
        ("curious", "uploads", True, False),
        ("public", "all", True, True),
        ("public", "models", False, True),
    ],
)
def test_scope_for_each_adversary(adversary: Any, of: Any, holds_uploads: bool, by_models: bool) -> None:
    stop_at = StopAt(epsilon=3.0, adversary=adversary, of=of)
    assert stop_at.counts_models(holds_uploads) == by_models
    assert stop_at.adversary_is_server is (adversary in ("server", "both"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"accountant": "naive", "delta": 0.0},
            "delta has no meaning with accountant: naive, which adds up claims, got 0;",
        ),
        ({"adversary": "both", "of": "models"}, "of: models has no meaning with adversary: both"),
    ],
)
def test_contradictory_fields_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        StopAt.model_validate({"epsilon": 1.0, **fields})
