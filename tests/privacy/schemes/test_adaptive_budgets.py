"""The adaptive scheme: budgets and noise of each upload, claims and faults."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.base.errors import ScenarioError
from asyncfl.privacy import AdaptiveBudgets, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.release import Contribution
from asyncfl.privacy.schemes.adaptive_budgets import (
    LossHistory,
    adjusted_budget,
    constant_budget,
)
from asyncfl.privacy.upload_records import Upload
from asyncfl.scenario import Scenario

CONTEXT = PrivacyContext(
    clients=5, participants=5, rounds=250, smallest_samples=1000, exposures=0, batch_size=32, epochs=1, lr=0.01
)
SETTING_3 = (4, 4, 8, 8, 12)


def told(scheme: AdaptiveBudgets, *losses: float, client: int = 0) -> list[float | None]:
    """Budget of each upload of the client, the one after the last loss included."""
    state = scheme.start(CONTEXT)
    assert isinstance(state, LossHistory)
    budgets = []
    for turn, loss in enumerate(losses):
        epsilon = state.epsilon(client, turn)
        budgets.append(epsilon)
        state.record_training(Contribution(client, 1000, turn, epsilon), loss, 1.0)
    return [*budgets, state.epsilon(client, len(losses))]


def test_the_third_upload_uses_the_budget_of_the_second_loss() -> None:
    assert told(AdaptiveBudgets(budgets=SETTING_3), 2.3, 0.5) == pytest.approx([4, 4, 5.8])
    literal = AdaptiveBudgets(budgets=SETTING_3, adjustment="exponential", matched_k=False)
    assert told(literal, 2.3, 0.5) == pytest.approx([4, 4, 24.19859], abs=5e-6)
    matched = AdaptiveBudgets(budgets=SETTING_3, adjustment="exponential")
    assert told(matched, 2.3, 1.3) == pytest.approx([4, 4, 4.898979], abs=5e-7)
    assert told(AdaptiveBudgets(budgets=SETTING_3, adjustment="none"), 2.3, 0.5) == [4, 4, 4]


def test_noise_of_each_upload_equals_the_published_values() -> None:
    scheme = AdaptiveBudgets(budgets=SETTING_3)
    found = [
        scheme.upload_noise(CONTEXT, 1.0, Contribution(client, 1000, 0, epsilon)).std
        for client, epsilon in enumerate(SETTING_3)
    ]
    assert found == pytest.approx([0.0757001, 0.0757001, 0.0378500, 0.0378500, 0.0252334], abs=5e-8)
    release = upload_release(scheme, CONTEXT, 1.0, Contribution(4, 1000, 0, 12.0))
    assert release.epsilon == 12
    assert exact_epsilon(250 / release.multiplier**2, 1e-5) == pytest.approx(933, abs=0.5)


def test_gradient_uploads_are_scaled_by_the_learning_rate() -> None:
    scheme = AdaptiveBudgets(budgets=SETTING_3, upload="gradient", clip_norm=2.0)
    state = scheme.start(CONTEXT)
    assert state.clip_norm(np.ones(3)) == pytest.approx(0.01 * 2)
    assert scheme.update_factor(CONTEXT, 1000) == pytest.approx(1 / 32)
    assert scheme.upload_noise(CONTEXT, None, Contribution(0, 1000)).sensitivity == pytest.approx(0.01 * 2 * 2 / 32)


def test_server_noise_equals_the_published_value_for_a_threshold() -> None:
    scheme = AdaptiveBudgets(budgets=(1, 1, 2, 2, 3), threshold=9.0)
    entered = [Contribution(c, 1000, 0, e) for c, e in enumerate((2.0, 2.0, 2.0, 3.0, 3.0))]
    unit = 2 / 32 * 4.8448053
    assert scheme.model_noise(CONTEXT, 1.0, entered).std == pytest.approx(unit * 0.0734931, rel=1e-6)
    assert scheme.model_noise(CONTEXT, 1.0, entered[:3]).std == 0, "6 is within 9"
    assert scheme.model_noise(CONTEXT, 1.0).std == 0, "9 is within 9"
    without = scheme.model_copy(update={"threshold": None})
    assert without.model_noise(CONTEXT, 1.0, entered).std == 0


def test_server_noise_inside_the_sum_is_averaged_like_the_updates() -> None:
    once = AdaptiveBudgets(budgets=(1, 1, 2, 2, 3), threshold=9.0)
    scheme = once.model_copy(update={"server_noise": "per_update"})
    weights = (0.4, 0.3, 0.1, 0.1, 0.1)
    even, uneven = ([Contribution(c, 1000, 0, 3.0, weight=w) for c, w in enumerate(ws)] for ws in ((0.2,) * 5, weights))
    sigma_d = 2 / 32 * 4.8448053 * math.sqrt(9**-2 - 15**-2)
    assert scheme.model_noise(CONTEXT, 1.0, even).std == pytest.approx(sigma_d / math.sqrt(5), rel=1e-6)
    covariance = np.array(weights) @ np.diag([sigma_d**2] * 5) @ np.array(weights)
    assert scheme.model_noise(CONTEXT, 1.0, uneven).std == pytest.approx(math.sqrt(covariance), rel=1e-6)
    assert once.model_noise(CONTEXT, 1.0, uneven).std == pytest.approx(sigma_d, rel=1e-6)


def test_status_of_the_guarantees() -> None:
    scheme = AdaptiveBudgets(budgets=SETTING_3, threshold=36.0)
    assert scheme.upload_guarantee(CONTEXT).status == "heuristic"
    assert scheme.model_guarantee(CONTEXT).epsilon == 36
    constant = AdaptiveBudgets(budgets=SETTING_3, adjustment="none", sensitivity="2M")
    assert constant.upload_guarantee(CONTEXT).status == "proven"
    assert constant.model_guarantee(CONTEXT) is None
    off = AdaptiveBudgets(budgets=(math.inf,) * 5)
    assert off.off
    assert off.upload_guarantee(CONTEXT) is None
    assert off.notes(CONTEXT) == []


def test_notes_name_what_does_not_hold() -> None:
    said = " ".join(AdaptiveBudgets(budgets=SETTING_3, threshold=36.0).notes(CONTEXT))
    for words in ("depends on the data", "heuristic", "8.42", "exceeds its claim", "threshold 36"):
        assert words in said


def upload(client: int, epsilon: float) -> Upload:
    one = Contribution(client, 1000, 0, epsilon)
    release = upload_release(AdaptiveBudgets(budgets=SETTING_3), CONTEXT, None, one)
    return Upload(0, 0, one, release, None, 0.0, False, release.std)


def test_the_control_spends_as_much_as_its_reference_run() -> None:
    uploads = [upload(0, e) for e in (4.0, 4.0, 7.0)] + [upload(1, 5.0)]
    for spend, first in (("naive", 5.0), ("rdp", math.sqrt(27.0))):
        control = AdaptiveBudgets(budgets=SETTING_3, equal_spend=spend)
        assert control.reference is not None
        assert control.reference.scheme == AdaptiveBudgets(budgets=SETTING_3)
        measured = control.reference.settle(uploads)
        assert measured.budgets == pytest.approx((first, 5.0, 8, 8, 12))
        assert measured.adjustment == "none"
        assert measured.reference is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"budgets": ()}, "at least 1"),
        ({"budgets": (4, 0)}, "greater than 0"),
        ({"budgets": (4,), "threshold": 0}, "greater than 0"),
        ({"budgets": (4,), "shuffler": {"swaps": -1}}, "greater than or equal to 0"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AdaptiveBudgets.model_validate(fields)


BUDGETS = st.lists(st.floats(0.1, 100), min_size=1, max_size=20)


def test_budget_after_the_loss_fell_from_2_3_to_0_5() -> None:
    assert adjusted_budget("linear", 4, 1, 2.3, 0.5) == pytest.approx(5.8)
    assert adjusted_budget("exponential", 4, 1, 2.3, 0.5) == pytest.approx(24.19859, abs=5e-6)
    assert adjusted_budget("exponential", 4, 0.1, 2.3, 0.5) == pytest.approx(4.788869, abs=5e-7)
    assert adjusted_budget("none", 4, 1, 2.3, 0.5) == 4


@given(BUDGETS)
def test_constant_budgets_spend_as_much_as_varying_ones(spent: list[float]) -> None:
    naive, renyi = constant_budget(spent, "naive"), constant_budget(spent, "rdp")
    assert len(spent) * naive == pytest.approx(sum(spent))
    assert len(spent) * renyi**2 == pytest.approx(np.square(spent).sum())
    assert renyi >= naive * (1 - 1e-12)


FIVE = {"kind": "adaptive", "budgets": [4, 4, 8, 8, 12]}
GRADIENT = (
    "privacy.upload: gradient takes update/steps as the mean gradient, which is exact for plain SGD only: "
    "training.momentum and training.proximal_mu must be 0, got {}; set them to 0 or use upload: update"
)


def faults(scenario: Scenario, privacy: dict[str, Any], **changes: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        scenario.override({"privacy": {**FIVE, **privacy}, **changes})
    return [str(fault) for fault in caught.value.faults]


def test_one_budget_per_client_is_required(scenario: Scenario) -> None:
    assert faults(scenario, {"budgets": [1, 2]}) == [
        "privacy.budgets: must be one for each of the 5 clients, got 2; change privacy.budgets or data.clients"
    ]


def test_each_budget_below_the_floor_is_reported(scenario: Scenario) -> None:
    said = "must be at least privacy.floor (0.1), got {}; raise it or lower privacy.floor"
    assert faults(scenario, {"budgets": [4, 0.05, 8, 8, 0.01]}) == [
        f"privacy.budgets.1: {said.format(0.05)}",
        f"privacy.budgets.4: {said.format(0.01)}",
    ]
    scenario.override({"privacy": {**FIVE, "budgets": [0.05] * 5, "floor": 0.01}})
    scenario.override({"privacy": {**FIVE, "budgets": [0.05] * 5, "adjustment": "none"}})


@pytest.mark.parametrize(
    ("training", "got"),
    [
        ({"training.momentum": 0.9}, "momentum 0.9 and proximal_mu 0"),
        ({"training.proximal_mu": 1}, "momentum 0 and proximal_mu 1"),
    ],
)
def test_gradient_uploads_need_plain_sgd(scenario: Scenario, training: dict[str, Any], got: str) -> None:
    assert faults(scenario, {"upload": "gradient"}, **training) == [GRADIENT.format(got)]
    scenario.override({"privacy": FIVE, **training})
    scenario.override({"privacy": {**FIVE, "upload": "gradient"}})
