"""Claims for each client with constant and adjusted budgets, and their rows in the ledger."""

from typing import Any

import numpy as np
import pytest

from asyncfl.privacy import AdaptiveBudgets, PrivacyContext
from asyncfl.privacy.flags import BUDGETS, CLASSICAL, HEURISTIC
from asyncfl.privacy.ledger.releases import releases_of, upload_release
from asyncfl.privacy.ledger.rows import ledger
from asyncfl.privacy.release import Contribution
from tests.privacy.planned import model_accounts, published_models, upload_accounts, uploads_of

SAMPLES = np.full(5, 1000)
SETTING_1, SETTING_3 = (1, 1, 2, 2, 3), (4, 4, 8, 8, 12)


def context(clients: int = 5) -> PrivacyContext:
    return PrivacyContext(clients, clients, 250, 1000, 0, batch_size=32, lr=0.01)


def constant(budgets: tuple[float, ...] = SETTING_3, **fields: Any) -> AdaptiveBudgets:
    return AdaptiveBudgets(budgets=budgets, adjustment="none", **fields)


def after(scheme: AdaptiveBudgets, uploads: list[int]) -> dict[str, list[Any]]:
    """The ledger of typical uploads."""
    facts = context(len(uploads))
    made = {"server": uploads_of(scheme, facts, SAMPLES[: len(uploads)], uploads)}
    found = ledger(scheme, facts, SAMPLES[: len(uploads)], upload_accounts(scheme, facts, made))
    return {name: column.tolist() for name, column in found.items()}


def of_budgets(scheme: AdaptiveBudgets, *made: list[float]) -> dict[str, list[Any]]:
    """The ledger where each client's uploads had the budgets `made`."""
    facts = context(len(made))
    releases = [
        (client, turn, upload_release(scheme, facts, None, Contribution(client, 1000, turn, epsilon)))
        for client, budgets in enumerate(made)
        for turn, epsilon in enumerate(budgets)
    ]
    accounts = upload_accounts(scheme, facts, {"server": releases_of(releases)})
    return {name: column.tolist() for name, column in ledger(scheme, facts, SAMPLES[: len(made)], accounts).items()}


def test_each_client_is_promised_its_own_budget() -> None:
    scheme = constant(SETTING_1)
    assert [scheme.upload_guarantee(context(), client).epsilon for client in range(5)] == [1, 1, 2, 2, 3]
    assert scheme.upload_guarantee(context()).epsilon == 3, "what is promised to all is the largest"
    assert upload_release(scheme, context(), None, Contribution(0, 1000)).epsilon == 1
    assert upload_release(scheme, context(), None, Contribution(-1, 1000)).epsilon == 3


def test_the_ledger_of_setting_3_over_250_rounds() -> None:
    found = after(constant(), [250] * 5)
    assert found["claimed_epsilon"] == [4, 4, 8, 8, 12]
    assert found["naive_epsilon"] == [1000, 1000, 2000, 2000, 3000]
    assert found["exact_epsilon"] == pytest.approx([140, 140, 451, 451, 933], abs=0.5)
    assert found["claim_holds"] == [False] * 5


def test_adjusted_budgets_claim_the_largest_upload_budget() -> None:
    found = of_budgets(AdaptiveBudgets(budgets=(8, 8, 4)), [8, 8, 18.6], [8, 8, 0.1], [])
    assert found["claimed_epsilon"] == [18.6, 8, 4]
    assert found["naive_epsilon"] == pytest.approx([34.6, 16.1, 0])
    assert found["exact_epsilon"][0] > 23.0734, "what its last upload alone is worth"
    assert found["claim_holds"] == [False, False, None]


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


def test_a_model_claims_the_threshold() -> None:
    scheme = constant(threshold=36)
    assert scheme.model_guarantee(context()).neighbours == "replace at every client"
    assert constant(threshold=36, round_budget="max").model_guarantee(context()).neighbours == "replace"
    assert constant().model_guarantee(context()) is None
    accounts = model_accounts(scheme, context(), {"server": published_models([])})
    found = ledger(scheme, context(), SAMPLES, [], accounts)
    assert found["claimed_epsilon"].tolist() == [36]
    assert found["flags"].tolist() == [f"{CLASSICAL}; {HEURISTIC}"]
