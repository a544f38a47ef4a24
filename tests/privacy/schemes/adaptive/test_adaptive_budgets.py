"""The adaptive scheme: budgets and noise of each upload, claims and faults."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from asyncfl.privacy import AdaptiveBudgets, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.context import Contribution
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.schemes.adaptive.losses import LossHistory
from asyncfl.privacy.upload_records import Upload

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


def test_a_rising_loss_lowers_the_budget_to_the_floor() -> None:
    assert told(AdaptiveBudgets(budgets=SETTING_3), 2.3, 99.0)[-1] == 0.1
    assert told(AdaptiveBudgets(budgets=SETTING_3, floor=0.5), 2.3, math.nan)[-1] == 0.5
    assert told(AdaptiveBudgets(budgets=SETTING_3), math.inf)[-1] == 0.1


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


def test_server_noise_inside_the_sum_does_not_prove_the_threshold_of_a_sum() -> None:
    constant = AdaptiveBudgets(budgets=(90,) * 5, threshold=9.0, adjustment="none", sensitivity="2M")
    inside = constant.model_copy(update={"server_noise": "per_update"})
    # the samples of all clients are replaced: the mean moves by Delta = 2, against all noise on it
    needed, clients = 2 * 4.8448053 / 9, 2 * 4.8448053 / 90 / math.sqrt(5)
    for scheme, status in ((constant, "proven"), (inside, "heuristic")):
        enough = math.hypot(scheme.model_noise(CONTEXT, 1.0).std, clients) >= needed * (1 - 1e-9)
        assert enough == (status == "proven")
        assert scheme.model_guarantee(CONTEXT).status == status
    assert inside.model_copy(update={"round_budget": "max"}).model_guarantee(CONTEXT).status == "proven"


def test_model_sensitivity_follows_weights_and_server_learning_rate() -> None:
    scheme = AdaptiveBudgets(
        budgets=(4,) * 5, threshold=2.0, round_budget="max", sensitivity="2M", adjustment="none", clip_norm=0.5
    )
    assert scheme.model_guarantee(CONTEXT).status == "proven"
    uneven = dataclasses.replace(CONTEXT, equal_weights=False)
    assert scheme.model_guarantee(uneven).status == "heuristic"
    assert any("weigh more than 1/n" in note for note in scheme.notes(uneven))
    often = [Contribution(client, 1000, weight=0.25) for client in (2, 2, 0, 2)]
    assert scheme.model_noise(CONTEXT, 0.5, often).sensitivities == {2: 0.75, 0: 0.25}
    doubled = dataclasses.replace(CONTEXT, rate=2.0)
    assert scheme.model_noise(doubled, 0.5).std == 2 * scheme.model_noise(CONTEXT, 0.5).std > 0


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
