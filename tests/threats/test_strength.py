"""The strength that hurts most, and the attacks that search for it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.testing import check_attack, view
from asyncfl.threats import Alie, Ipm, Puller, Rehearsal, alie_z
from asyncfl.threats.strength import most_harmful

OTHERS = np.array([[3.0, 0, 4], [1, 2, 4], [2, 1, 1], [2, 1, 3]])


def median_server(strike_beyond: float = np.inf) -> Any:
    """A server that takes the median, and strikes uploads that are longer than `strike_beyond`."""

    def rehearse(crafted: Any) -> Rehearsal:
        moved = np.median(np.concatenate([OTHERS, crafted]), axis=0)
        return Rehearsal(np.linalg.norm(crafted, axis=1) > strike_beyond, moved)

    return rehearse


@given(st.floats(0.01, 60))
def test_the_search_comes_near_the_peak_of_any_single_peaked_harm(peak: float) -> None:
    tried = []

    def harm(strength: float) -> float:
        tried.append(strength)
        return 1 / (1 + abs(strength - peak))

    found = most_harmful(harm, 40)
    assert len(tried) <= 40
    assert found == pytest.approx(peak, abs=0.02 * max(1, peak))


def test_no_strength_is_taken_where_none_does_harm_and_tries_are_few() -> None:
    assert most_harmful(lambda strength: -np.inf, 16) == 0
    assert most_harmful(lambda strength: strength, 3) == 7  # 1, 1 + 2, 3 + 4


def test_optimal_ipm_moves_a_median_farther_than_the_usual_factor_and_is_not_struck() -> None:
    seen = replace(view(OTHERS[:3] + 0.1, OTHERS), rehearse=median_server())
    usual, best = Ipm(knowledge="buffer"), Ipm(knowledge="buffer", tau="optimal")
    calm = np.median(np.concatenate([OTHERS, [OTHERS.mean(axis=0)] * 3]), axis=0)

    def moved(attack: Any) -> float:
        return float(np.linalg.norm(seen.rehearse(attack.craft(seen)).moved - calm))

    assert best.rehearses
    assert not usual.rehearses
    assert moved(best) >= moved(usual) - 1e-6
    strict = replace(seen, rehearse=median_server(strike_beyond=1.0))
    assert np.linalg.norm(best.craft(strict)[0]) <= 1.0


def test_optimal_alie_shifts_by_the_deviations_that_move_the_model_farthest() -> None:
    def rehearse(crafted: Any) -> Rehearsal:
        """The mean of all uploads within three lengths of 5."""
        rows = np.concatenate([OTHERS, crafted])
        return Rehearsal(np.zeros(len(crafted), bool), rows[np.linalg.norm(rows, axis=1) < 15].mean(axis=0))

    seen = replace(view(OTHERS[:2], OTHERS), rehearse=rehearse)
    crafted = Alie(knowledge="buffer", z="optimal", rehearsals=40).craft(seen)[0]
    assert np.linalg.norm(crafted) == pytest.approx(15, abs=0.5)
    mean, deviation = OTHERS.mean(axis=0), OTHERS.std(axis=0, ddof=1)
    strength = (mean - crafted) / deviation
    np.testing.assert_allclose(strength, strength[0], rtol=1e-5)


def test_without_rehearsals_the_usual_strengths_are_taken() -> None:
    seen = view(OTHERS[:2], OTHERS)
    np.testing.assert_array_equal(
        Ipm(knowledge="buffer", tau="optimal").craft(seen), Ipm(knowledge="buffer", tau=2.0).craft(seen)
    )
    usual = Alie(knowledge="buffer", z=alie_z(6, 2) or None)
    np.testing.assert_array_equal(Alie(knowledge="buffer", z="optimal").craft(seen), usual.craft(seen))


def test_one_strength_for_all_needs_one_upload_of_all() -> None:
    with pytest.raises(ValueError, match="tau optimal needs knowledge colluders or buffer"):
        Ipm(tau="optimal", knowledge="own")
    with pytest.raises(ValueError, match="tau optimal needs versions 0"):
        Ipm(tau="optimal", versions=3)


def test_a_puller_subtracts_the_descent_of_its_class_by_hand() -> None:
    """The mean (3, 4) has length 5; class 1 descends along (0, 1), against its gradient (0, -2)."""
    gradients = np.array([[0.0, 0], [0, -2]])
    seen = replace(view([[2, 4], [4, 4]], OTHERS[:, :2]), class_gradients=lambda model: gradients)
    np.testing.assert_allclose(Puller(pulled_class=1).craft(seen), [[3, -1]] * 2)
    np.testing.assert_allclose(Puller(pulled_class=1, strength=0.2).craft(seen), [[3, 3]] * 2)
    alone = Puller(pulled_class=1, knowledge="own").craft(seen)
    np.testing.assert_allclose(alone[1], [4, 4 - np.sqrt(32)], rtol=1e-6)
    assert Puller().craft(seen) is None  # the attackers hold no sample of class 0
    check_attack(Puller())


def test_a_class_that_does_not_exist_is_refused() -> None:
    assert [fault.field for fault in Puller(pulled_class=10).faults(10, (1, 28, 28))] == ["pulled_class"]
