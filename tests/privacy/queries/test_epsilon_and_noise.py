"""Answers of `asyncfl privacy` about mechanisms."""

import json
import math

import pytest
from pydantic import ValidationError

from asyncfl.privacy.accounting import MechanismEvent
from asyncfl.privacy.accounting.gaussian import classical_constant, exact_epsilon
from asyncfl.privacy.flags import CLASSICAL
from asyncfl.privacy.queries.epsilon_and_noise import (
    ComposeQuestion,
    EpsilonQuestion,
    ExposureQuestion,
    NoiseQuestion,
)


def column(answer, name):
    return {row["accountant"]: row[name] for row in answer["accountants"]}


def test_epsilon_of_laplace_noise_equals_the_published_values():
    found = column(EpsilonQuestion(noise_multiplier=10, releases=100, laplace=True).answer(), "epsilon")
    assert found["basic"] == pytest.approx(10)
    assert found["advanced"] == pytest.approx(5.850, abs=5e-4)
    assert found["rdp"] == pytest.approx(4.53269, abs=6e-6)
    assert found["exact"] == pytest.approx(4.22035, abs=6e-6)


def test_a_replaced_record_in_a_sample_has_no_renyi_bound():
    question = EpsilonQuestion(noise_multiplier=1.1, releases=10, sampling_rate=0.01, neighbours="replace")
    answer = question.answer()
    assert column(answer, "epsilon")["rdp"] is None
    assert len(answer["notes"]) == 2
    json.dumps(answer, allow_nan=False)


def test_noise_for_an_epsilon_next_to_the_classical_calibration():
    answer = NoiseQuestion(epsilon=1, sensitivity=2).answer()
    found = column(answer, "noise_multiplier")
    assert (found["exact"], found["classical"]) == (pytest.approx(3.730632), pytest.approx(4.844805))
    assert column(answer, "sigma")["exact"] == pytest.approx(2 * 3.730632)
    too_much = NoiseQuestion(epsilon=60, delta=0.01).answer()
    assert too_much["notes"][-1] == (
        "classical calibration past its limit: too little noise for epsilon 60; for one release it is enough up to "
        "epsilon 6.772"
    )
    assert "true epsilon" in too_much["notes"][0]
    laplace = NoiseQuestion(epsilon=0.5, laplace=True, sensitivity=1).answer()
    assert column(laplace, "scale")["basic"] == pytest.approx(2)
    assert "classical" not in column(laplace, "scale")


@pytest.mark.parametrize(
    ("epsilon", "releases", "neighbours", "past"),
    [
        (200, 2, "add_remove", True),
        (200, 2, "replace", True),
        (10, 2, "add_remove", False),
        # The limit is one release's, and 25 have 2 each here.
        (50, 25, "add_remove", False),
        (6.7, 1, "add_remove", False),
        (6.8, 1, "replace", True),
    ],
)
def test_too_little_classical_noise_is_noted(epsilon, releases, neighbours, past):
    question = NoiseQuestion(epsilon=epsilon, delta=0.01, releases=releases, neighbours=neighbours)
    answer = question.answer()
    z = column(answer, "noise_multiplier")["classical"] / (2 if neighbours == "replace" else 1)
    assert (exact_epsilon(releases / z**2, 0.01) > epsilon) == past
    assert any(note.startswith(CLASSICAL) for note in answer["notes"]) == past
    assert f"true epsilon {exact_epsilon(releases / z**2, 0.01):.4g}" in " ".join(answer["notes"])


def test_composition_of_different_releases():
    answer = ComposeQuestion(
        releases=["gaussian:5", "gaussian:6", MechanismEvent("gaussian", 7), MechanismEvent("gaussian", 8)]
    ).answer()
    found = column(answer, "epsilon")
    assert (found["exact"], found["rdp"]) == (pytest.approx(1.224343), pytest.approx(1.335174))
    assert [row["releases"] for row in answer["alone"]] == [
        "gaussian:5x1",
        "gaussian:6x1",
        "gaussian:7x1",
        "gaussian:8x1",
    ]
    assert answer["alone"][0]["exact_epsilon"] == pytest.approx(exact_epsilon(0.04, 1e-5))


@pytest.mark.parametrize(("epsilon", "exposures"), [(6, 25), (60, 7), (0.5, 100)])
def test_needed_exposures_are_the_fewest_that_keep_the_budget(epsilon, exposures):
    answer = ExposureQuestion(epsilon=epsilon, exposures=exposures).answer()
    needed, c = column(answer, "needed_L")["exact"], 1.25 * classical_constant(0.01)

    def spent(assumed):
        return exact_epsilon(exposures * (epsilon / (c * assumed)) ** 2, 0.01)

    assert spent(needed) <= epsilon
    assert needed == 1 or spent(needed - 1) > epsilon


def test_all_faults_of_a_question_are_reported():
    with pytest.raises(ValidationError) as caught:
        EpsilonQuestion(noise_multiplier=-1, releases=0, delta=1, laplace=True, sampling_rate=0.5, neighbours="any")
    names = {fault["loc"][0] for fault in caught.value.errors()}
    assert names == {"noise_multiplier", "releases", "delta", "sampling_rate", "neighbours"}
    for no_number in (math.inf, math.nan):
        with pytest.raises(ValidationError, match="a finite number"):
            NoiseQuestion(epsilon=no_number)
