"""Answers of `asyncfl privacy` and `asyncfl bounds`."""

import json
import math

import pytest
from pydantic import ValidationError

from asyncfl.privacy.accounting import MechanismEvent
from asyncfl.privacy.accounting.gaussian import classical_constant, exact_epsilon
from asyncfl.privacy.flags import CLASSICAL
from asyncfl.privacy.queries.convergence_bounds import BoundsQuestion
from asyncfl.privacy.queries.epsilon_and_noise import (
    ComposeQuestion,
    EpsilonQuestion,
    ExposureQuestion,
    NbaflQuestion,
    NoiseQuestion,
)


def column(answer, name):
    return {row["accountant"]: row[name] for row in answer["accountants"]}


def test_a_replaced_record_in_a_sample_has_no_renyi_bound():
    question = EpsilonQuestion(noise_multiplier=1.1, releases=10, sampling_rate=0.01, neighbours="replace")
    answer = question.answer()
    assert column(answer, "epsilon")["rdp"] is None
    assert len(answer["notes"]) == 3
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (
            EpsilonQuestion(noise_multiplier=1.1, delta=1e-6),
            "epsilon at delta 1e-06 for one record added or removed; a noise multiplier is the standard deviation over "
            "the L2 norm of one record's contribution to a release",
        ),
        (
            NoiseQuestion(epsilon=1, laplace=True, neighbours="replace"),
            "epsilon at delta 1e-05 for one record replaced, which moves a release twice as far; a noise multiplier is "
            "the scale over the L1 norm of one record's contribution to a release",
        ),
        (
            ComposeQuestion(releases=("gaussian:4", "laplace:3", "pure:0.5")),
            "epsilon at delta 1e-05 for one record added or removed; a noise multiplier is the standard deviation over "
            "the L2 norm, of Laplace noise the scale over the L1 norm of one record's contribution to a release",
        ),
        (ComposeQuestion(releases=("pure:0.5",)), "epsilon at delta 1e-05 for one record added or removed"),
    ],
)
def test_an_epsilon_names_its_delta_neighbours_and_multiplier(question, words):
    assert question.answer()["notes"][0] == words


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
    assert "true epsilon" in too_much["notes"][1]
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
    assert [row["releases"] for row in answer["alone"]] == [f"gaussian:{z}x1" for z in (5, 6, 7, 8)]
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


def test_noise_of_nbafl_and_its_epsilons_equal_the_published_values():
    found = NbaflQuestion(clients=50, participants=20, rounds=25, exposures=2, epsilon=50).answer()
    assert found["sigma_u"] == pytest.approx(0.06215023, abs=5e-9)
    assert found["rounds_without_server_noise"] == pytest.approx(98.359536, abs=5e-7)
    assert (found["server_rule"][:11], found["sigma_model"]) == (
        "paper: none",
        pytest.approx(found["sigma_u"] / 20**0.5),
    )
    json.dumps(found, allow_nan=False)
    once, always, model = NbaflQuestion(epsilon=60).answer()["worth"]
    assert (once["release"], once["releases"]) == ("upload", 1)
    assert (once["exact_epsilon"], once["rdp_epsilon"]) == (
        pytest.approx(154.3, abs=0.05),
        pytest.approx(163.5, abs=0.06),
    )
    assert (always["releases"], model["releases"], model["release"]) == (25, 25, "model")
    assert always["exact_epsilon"] > once["exact_epsilon"] > model["exact_epsilon"]


def test_bounds_are_answered_or_say_why_they_are_undefined():
    full = BoundsQuestion().answer()
    assert (full["theorem"], full["P"], full["undefined"], full["best_rounds"]["best"]) == (2, 0.75, None, 15)
    partial = {"participants": 20, "loss": {"smoothness": 0.1}}
    found = BoundsQuestion(**partial, noise={"epsilon": 6}).answer()
    assert (found["theorem"], found["undefined"]) == (3, None)
    assert found["bound"] == pytest.approx(0.08666987, abs=5e-7)
    none = BoundsQuestion(**partial, noise={"epsilon": 50}).answer()
    assert none["bound"] is None
    assert "epsilon/T < -ln(1 - K/N)" in none["undefined"]
    diverging = BoundsQuestion(participants=20).answer()
    assert "0 <= Q < 1" in diverging["undefined"]
    assert diverging["best_rounds"] is diverging["best_participants"] is None
    json.dumps([full, found, none, diverging], allow_nan=False)
