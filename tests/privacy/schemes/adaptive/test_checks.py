"""Faults of adaptive budgets: field, value and allowed values in one message."""

from typing import Any

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.scenario import Scenario

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


def test_a_control_of_constant_budgets_is_refused(scenario: Scenario) -> None:
    assert faults(scenario, {"adjustment": "none", "equal_spend": "rdp"}) == [
        "privacy.equal_spend: must be null with privacy.adjustment: none, got rdp; it is the control for a run whose "
        "budgets change"
    ]


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


def test_gradient_uploads_differ_from_no_privacy_without_noise(scenario: Scenario) -> None:
    infinite = {**FIVE, "budgets": [float("inf")] * 5}
    updates, gradients = (scenario.override({"privacy": {**infinite, "upload": how}}) for how in ("update", "gradient"))
    assert updates.digest() == scenario.digest()
    assert gradients.digest() != scenario.digest()
