"""Answers of `asyncfl privacy` and `asyncfl bounds` about NbAFL."""

import json

import pytest

from asyncfl.privacy.queries.bounds import BoundsQuestion
from asyncfl.privacy.queries.epsilon_and_noise import NbaflQuestion


def test_noise_of_figure_4_equals_the_published_values():
    found = NbaflQuestion(clients=50, participants=20, rounds=25, exposures=2, epsilon=50).answer()
    assert found["sigma_u"] == pytest.approx(0.06215023, abs=5e-9)
    assert (found["sigma_a"], found["sigma_d"], found["b"]) == (None, 0, None)
    assert found["gamma"] == pytest.approx(0.50833912, abs=5e-9)
    assert found["rounds_without_server_noise"] == pytest.approx(98.359536, abs=5e-7)
    assert found["server_rule"].startswith("paper: none")
    assert found["sigma_model"] == pytest.approx(found["sigma_u"] / 20**0.5)
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("epsilon", "exact", "renyi"), [(50, 111.9, 119.3), (60, 154.3, 163.5), (100, 390.3, 406.3)])
def test_epsilons_of_the_noise_equal_the_published_values(epsilon, exact, renyi):
    once, always, model = NbaflQuestion(epsilon=epsilon).answer()["worth"]
    assert (once["release"], once["releases"]) == ("upload", 1)
    assert once["exact_epsilon"] == pytest.approx(exact, abs=0.05)
    assert once["rdp_epsilon"] == pytest.approx(renyi, abs=0.06)
    assert (always["releases"], model["releases"], model["release"]) == (25, 25, "model")
    assert always["exact_epsilon"] > once["exact_epsilon"] > model["exact_epsilon"]


def test_theorem_2_is_answered():
    found = BoundsQuestion().answer()
    assert (found["theorem"], found["P"], found["undefined"]) == (2, 0.75, None)
    assert found["bound"] == pytest.approx(0.22281512, abs=5e-9)
    assert found["best_rounds"]["best"] == 15
    json.dumps(found, allow_nan=False)


def test_theorem_3_is_answered_or_explains_why_it_is_undefined():
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
    json.dumps([found, none, diverging], allow_nan=False)
