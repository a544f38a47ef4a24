"""`asyncfl privacy` and `asyncfl bounds`."""

import json
from typing import Any

import pytest


@pytest.fixture
def privacy(program: Any) -> Any:
    """Calls `asyncfl privacy`; returns status, output, errors."""
    return lambda words: program("privacy", *words.split())


def by(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return {row["accountant"]: row[name] for row in answer["answer"]["accountants"]}


def test_epsilon_of_a_noise_multiplier(privacy: Any) -> None:
    code, out, _ = privacy("epsilon --noise-multiplier 1.1 --releases 100 --neighbours replace --json")
    assert code == 0
    assert by(json.loads(out), "epsilon")["exact"] == pytest.approx(241.935, abs=5e-4)
    shown = privacy("epsilon --noise-multiplier 1.1 --sampling-rate 0.01 --releases 5")[1]
    assert shown.startswith("accountant")
    assert "note: epsilon at delta 1e-05 for one record added or removed" in shown
    assert "note: a sampling rate counts only where" in shown


def test_noise_for_an_epsilon(privacy: Any) -> None:
    assert by(json.loads(privacy("noise --epsilon 1 --json")[1]), "sigma")["exact"] == pytest.approx(3.730632)
    assert "classical" in privacy("noise --epsilon 1")[1]


def test_composition_of_a_list(privacy: Any) -> None:
    answer = json.loads(privacy("compose gaussian:5 gaussian:6 gaussian:7 gaussian:8 --json")[1])
    assert by(answer, "epsilon")["rdp"] == pytest.approx(1.335174)
    assert answer["question"]["releases"] == ["gaussian:5", "gaussian:6", "gaussian:7", "gaussian:8"]
    assert "laplace:5x3" in privacy("compose laplace:5x3")[1]


def test_exposure(privacy: Any) -> None:
    assert by(json.loads(privacy("exposure --json")[1]), "needed_L")["exact"] == 2
    assert "noise_multiplier: " in privacy("exposure --exposures 3")[1]


def test_nbafl_prints_its_noise_within_80_columns(privacy: Any) -> None:
    options = "--clients 50 --participants 20 --rounds 25 --exposures 2 --epsilon 50 --delta 0.01 --constant 1.25"
    answer = json.loads(privacy(f"nbafl {options} --clip-norm 20 --samples 100 --json")[1])["answer"]
    assert (answer["sigma_d"], answer["b"]) == (0, None)
    shown = privacy("nbafl")[1]
    assert "sigma_u" in shown
    assert "exact_epsilon" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_bounds_prints_the_bound_its_optimum_and_its_curve(program: Any) -> None:
    found = json.loads(program("bounds", "--epsilon", 60, "--rounds", 25, "--json", "--curve")[1])
    curve = found["curve"]["bound"]
    assert len(curve) == 25
    assert found["answer"]["bound"] == pytest.approx(curve[-1])
    best = 1 + curve.index(min(curve))
    assert found["answer"]["best_rounds"]["best"] == best
    assert f"best_rounds: best {best}" in program("bounds", "--epsilon", 60, "--curve")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nbafl --participants 60 --epsilon -1", "--epsilon: must be greater than 0, got -1"),
        ("epsilon --noise-multiplier 0", "--noise-multiplier: must be greater than 0, got 0.0"),
        ("epsilon --noise-multiplier 1 --delta 1", "--delta: must be less than 1, got 1.0"),
        ("epsilon --noise-multiplier 1 --laplace --sampling-rate 0.1", "--sampling-rate: must be 1 with Laplace noise"),
        ("noise --epsilon 1 --neighbours any", "--neighbours: must be 'add_remove' or 'replace', got 'any'"),
        ("noise --epsilon -1 --releases 0", "2 faults"),
        ("compose gaussian:1 gauss:2", "gauss:2: mechanism must be one of gaussian, laplace, pure, got 'gauss'"),
        ("compose gaussian:1x0", "gaussian:1x0: number of releases must be a whole number in 1..1000000000, got '0'"),
        (
            "compose gaussian:1 gaussian:1x0 gauss:2 --delta 7",
            "3 faults\n  --delta: must be less than 1, got 7.0\n  gaussian:1x0: ",
        ),
        ("exposure --exposures 0", "--exposures: must be greater than or equal to 1, got 0"),
    ],
)
def test_wrong_options_are_one_message_with_status_2(privacy: Any, words: str, message: str) -> None:
    code, _, err = privacy(words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
