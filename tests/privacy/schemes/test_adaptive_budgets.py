"""Adaptive budgets: budgets, noise and claims of each upload, their rows in the ledger, and the trusted shuffler."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.learning import Mlp
from asyncfl.privacy import AdaptiveBudgets, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.flags import BUDGETS, CLASSICAL, HEURISTIC
from asyncfl.privacy.ledger.releases import releases_of, upload_release
from asyncfl.privacy.ledger.rows import ledger, scheme_notes
from asyncfl.privacy.release import Contribution, Upload
from asyncfl.privacy.schemes.adaptive_budgets import LossHistory, Shuffler, constant_budget, swapped_order
from asyncfl.scenario import Scenario
from tests.privacy.planned import model_accounts, published_models, upload_accounts

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


def test_a_threshold_for_the_largest_budget_is_never_passed_where_one_for_the_sum_is() -> None:
    """Setting 3 has a threshold of 36, its starting budgets add up to 36, and none of them triples."""
    of_sum = AdaptiveBudgets(budgets=SETTING_3, threshold=36.0, server_noise="per_update")
    raised = [Contribution(client, 1000, 0, 1.5 * budget) for client, budget in enumerate(SETTING_3)]
    assert of_sum.model_noise(CONTEXT, 1.0, raised).std > 0
    assert of_sum.model_copy(update={"round_budget": "max"}).model_noise(CONTEXT, 1.0, raised).std == 0


def test_notes_explain_flags_and_the_threshold() -> None:
    found = scheme_notes(AdaptiveBudgets(budgets=SETTING_3, threshold=36.0), CONTEXT)
    assert [note.partition(": ")[0] for note in found[:3]] == [CLASSICAL, HEURISTIC, BUDGETS]
    assert any(note.startswith("threshold 36") for note in found)


def upload(client: int, epsilon: float) -> Upload:
    one = Contribution(client, 1000, 0, epsilon)
    release = upload_release(AdaptiveBudgets(budgets=SETTING_3), CONTEXT, None, one)
    return Upload(0, 0, one, release, None, 0.0, False, release.std)


def test_the_control_spends_as_much_as_its_reference_run() -> None:
    uploads = [upload(0, e) for e in (4.0, 4.0, 7.0)] + [upload(1, 5.0)]
    for spend, first in (("naive", 5.0), ("rdp", math.sqrt(27.0))):
        control = AdaptiveBudgets(budgets=SETTING_3, equal_spend=spend)
        assert control.reference == AdaptiveBudgets(budgets=SETTING_3)
        measured = control.settle(uploads)
        assert measured.budgets == pytest.approx((first, 5.0, 8, 8, 12))
        assert measured.adjustment == "none"
        assert measured.reference is None


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=20))
def test_constant_budgets_spend_as_much_as_varying_ones(spent: list[float]) -> None:
    naive, renyi = constant_budget(spent, "naive"), constant_budget(spent, "rdp")
    assert len(spent) * naive == pytest.approx(sum(spent))
    assert len(spent) * renyi**2 == pytest.approx(np.square(spent).sum())
    assert renyi >= naive * (1 - 1e-12)


FIVE = {"kind": "adaptive", "budgets": [4, 4, 8, 8, 12]}


def test_each_budget_below_the_floor_is_reported(scenario: Scenario) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario.override({"privacy": {**FIVE, "budgets": [4, 0.05, 8, 8, 0.01]}})
    assert [fault.field for fault in caught.value.faults] == ["privacy.budgets.1", "privacy.budgets.4"]
    said = "must be at least privacy.floor (0.1), got 0.05; raise it or lower privacy.floor"
    assert caught.value.faults[0].message == said
    for more in ({"floor": 0.01}, {"adjustment": "none"}):
        scenario.override({"privacy": {**FIVE, "budgets": [0.05] * 5, **more}})


def test_gradient_uploads_need_plain_sgd(scenario: Scenario) -> None:
    gradient = {"privacy": {**FIVE, "upload": "gradient"}}
    scenario.override(gradient)
    for field, got in (
        ("momentum", "momentum 0.9 and proximal_mu 0"),
        ("proximal_mu", "momentum 0 and proximal_mu 0.9"),
    ):
        with pytest.raises(ScenarioError, match=rf"^privacy\.upload: gradient .* must be 0, got {got}; set them to 0"):
            scenario.override({**gradient, f"training.{field}": 0.9})
        scenario.override({"privacy": FIVE, f"training.{field}": 0.9})


SAMPLES = np.full(5, 1000)
SETTING_1 = (1, 1, 2, 2, 3)


def constant(budgets: tuple[float, ...] = SETTING_3, **fields: Any) -> AdaptiveBudgets:
    return AdaptiveBudgets(budgets=budgets, adjustment="none", **fields)


def of_budgets(scheme: AdaptiveBudgets, *made: list[float]) -> dict[str, list[Any]]:
    """The ledger where each client's uploads had the budgets `made`."""
    facts = replace(CONTEXT, clients=len(made), participants=len(made))
    releases = [
        (client, turn, upload_release(scheme, facts, None, Contribution(client, 1000, turn, epsilon)))
        for client, budgets in enumerate(made)
        for turn, epsilon in enumerate(budgets)
    ]
    accounts = upload_accounts(scheme, facts, {"server": releases_of(releases)})
    return {name: column.tolist() for name, column in ledger(scheme, facts, SAMPLES[: len(made)], accounts).items()}


def test_each_client_is_promised_its_own_budget() -> None:
    scheme = constant(SETTING_1)
    assert [scheme.upload_guarantee(CONTEXT, client).epsilon for client in range(5)] == [1, 1, 2, 2, 3]
    assert scheme.upload_guarantee(CONTEXT).epsilon == 3, "what is promised to all is the largest"
    assert upload_release(scheme, CONTEXT, None, Contribution(0, 1000)).epsilon == 1
    assert upload_release(scheme, CONTEXT, None, Contribution(-1, 1000)).epsilon == 3


def test_the_ledger_of_setting_3_over_250_rounds() -> None:
    found = of_budgets(constant(), *([budget] * 250 for budget in SETTING_3))
    assert found["claimed_epsilon"] == [4, 4, 8, 8, 12]
    assert found["naive_epsilon"] == [1000, 1000, 2000, 2000, 3000]
    assert found["exact_epsilon"] == pytest.approx([140, 140, 451, 451, 933], abs=0.5)
    assert found["claim_holds"] == [False] * 5


@pytest.mark.parametrize(
    ("budgets", "made", "flagged"),
    [
        # The limit of the classical calibration is 8.42 at delta = 1e-5.
        ((8, 8), ([8, 8, 18.6], [8, 8, 8.3]), [True, False]),
        ((1, 12), ([1], [12]), [False, True]),
        ((1, 12), ([], []), [False, True]),
        ((12, 12), ([8, 0.1], [12, 0.1]), [False, True]),
    ],
)
def test_the_classical_limit_is_checked_per_client(
    budgets: tuple[float, ...], made: tuple[list[float], ...], flagged: list[bool]
) -> None:
    found = of_budgets(constant(budgets), *made)
    assert [CLASSICAL in flags for flags in found["flags"]] == flagged
    assert all(HEURISTIC in flags for flags in found["flags"])
    adjusted = of_budgets(AdaptiveBudgets(budgets=budgets), *made)
    assert [CLASSICAL in flags for flags in adjusted["flags"]] == flagged
    assert all(BUDGETS in flags for flags in adjusted["flags"])


def test_status_of_the_guarantees_and_the_threshold_that_a_model_claims() -> None:
    assert AdaptiveBudgets(budgets=SETTING_3).upload_guarantee(CONTEXT).status == "heuristic"
    assert constant(sensitivity="2M").upload_guarantee(CONTEXT).status == "proven"
    off = AdaptiveBudgets(budgets=(math.inf,) * 5)
    assert (off.off, off.upload_guarantee(CONTEXT), off.notes(CONTEXT)) == (True, None, [])
    scheme = constant(threshold=36)
    assert scheme.model_guarantee(CONTEXT).neighbours == "replace at every client"
    assert constant(threshold=36, round_budget="max").model_guarantee(CONTEXT).neighbours == "replace"
    assert constant().model_guarantee(CONTEXT) is None
    accounts = model_accounts(scheme, CONTEXT, {"server": published_models([])})
    found = ledger(scheme, CONTEXT, SAMPLES, [], accounts)
    assert found["claimed_epsilon"].tolist() == [36]
    assert found["flags"].tolist() == [f"{CLASSICAL}; {HEURISTIC}"]


LAYOUT = Mlp(hidden=(3,)).layout((1, 2, 2), 2)


def models_of_clients(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LAYOUT.n_parameters)).astype(np.float32)


@pytest.mark.parametrize(("swaps", "probability"), [(1, 0.6), (2, 0.4), (5, 0.225), (10, 0.200781)])
def test_probability_that_a_layer_stays_with_its_client(swaps: int, probability: float) -> None:
    # A swap moves the layer in one of m = 5 places with probability 2/m, to any other place alike.
    assert probability == pytest.approx(1 / 5 + 4 / 5 * (1 - 2 / 4) ** swaps, abs=5e-7)
    random = np.random.default_rng(swaps)
    draws = 20_000
    own = np.mean([swapped_order(5, swaps, random)[2] == 2 for _ in range(draws)])
    assert own == pytest.approx(probability, abs=4 * (probability * (1 - probability) / draws) ** 0.5)


@given(st.integers(1, 7), st.integers(0, 30), st.integers(0, 100))
def test_shuffling_permutes_whole_layers_and_keeps_sums(count: int, swaps: int, seed: int) -> None:
    before = models_of_clients(count, seed)
    after = before.copy()
    Shuffler(swaps=swaps).shuffle(after, LAYOUT, np.ones(count, bool), np.random.default_rng(seed))
    for layer in LAYOUT.layers:
        old, new = before[:, layer.slice], after[:, layer.slice]
        assert sorted(map(bytes, old)) == sorted(map(bytes, new)), "whole layers, weight and bias together"
    np.testing.assert_allclose(after.sum(axis=0), before.sum(axis=0), rtol=1e-4, atol=1e-5)


def test_malformed_uploads_are_not_shuffled() -> None:
    models = models_of_clients(5)
    models[1, 0] = np.nan
    before = models.copy()
    sound = np.array([True, True, True, False, True])
    Shuffler(swaps=50).shuffle(models, LAYOUT, sound, np.random.default_rng(0))
    np.testing.assert_array_equal(models[[1, 3]], before[[1, 3]])
    assert (models[[0, 2, 4]] != before[[0, 2, 4]]).any()
    np.testing.assert_allclose(models[[0, 2, 4]].sum(axis=0), before[[0, 2, 4]].sum(axis=0), atol=1e-5)
