"""Fang's attack: the deviation that Krum still selects, and parameters beyond those that a trimmed mean keeps."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.defences import Krum, TrimmedMean
from asyncfl.testing import check_attack, view
from asyncfl.threats import AnyAttack, Fang


def honest(n: int, d: int = 40, seed: int = 0, spread: float = 2.0) -> np.ndarray:
    return 1.0 + spread * np.random.default_rng(seed).standard_normal((n, d))


def test_krum_selects_the_crafted_update_which_points_the_other_way() -> None:
    others = honest(14)
    crafted = Fang(knowledge="buffer").craft(view(honest(6, seed=1), others))
    assert (crafted == crafted[0]).all()
    assert len(np.unique(np.abs(crafted[0]))) == 1  # -lambda s
    np.testing.assert_array_equal(np.sign(crafted[0]), -np.sign(others.mean(axis=0)))
    chosen = Krum(byzantine=6).weigh(np.concatenate([crafted, others]), np.full(20, 0.05))
    assert np.flatnonzero(chosen).tolist() == [0]
    assert -np.mean(crafted[0] * np.sign(others.mean(axis=0))) > 0.1


def test_krum_selects_no_far_update_where_honest_ones_are_close_together() -> None:
    crafted = Fang(knowledge="buffer").craft(view(honest(6, seed=1), honest(14, spread=0.3)))
    assert np.abs(crafted).max() < 1e-5


def test_lambda_begins_at_the_bound_of_the_source_by_hand() -> None:
    """Honest updates 1, 2 and 4, m = 5, c = 2: the m - c - 2 = 1 nearest is 1 away at best, and m - 2c - 1 = 0 counts
    as 1: 1 / 1 + 4. Of m = 4, c = 1 it is 1."""
    squares = np.array([1.0, 4, 16])
    points = np.array([[1.0], [2], [4]])
    among = (points - points.T) ** 2
    assert Fang()._bound(among, squares, 2, 1) == pytest.approx(1 / 1 + 4)
    assert Fang()._bound(among, squares, 1, 1) == pytest.approx(1 / 1 + 4)


def test_attackers_that_know_each_other_simulate_krum_on_their_own_updates() -> None:
    own = honest(8)
    crafted = Fang().craft(view(own, honest(12, seed=3)))
    np.testing.assert_array_equal(np.sign(crafted), -np.sign(own.mean(axis=0)) * np.ones((8, 1)))
    assert Fang().craft(view(own[:1], honest(5, seed=3))) is None  # one update shows no deviation


def test_parameters_are_drawn_beyond_the_honest_ones_by_hand() -> None:
    """Honest models at 10 + {1, 3} and -10 + {-1, -3}. The first rises, so values are in [11 / 2, 11]; the second
    falls: -11 is the largest, and values are in [-11, -11 / 2]."""
    others = [[1, -1], [3, -3]]
    seen = view(honest(3, 2), others, current=[10, -10])
    attack = Fang(against="trimmed_mean", knowledge="buffer")
    models = attack.craft(seen) + np.array([10, -10])
    assert ((models[:, 0] >= 5.5) & (models[:, 0] <= 11)).all()
    assert ((models[:, 1] >= -11) & (models[:, 1] <= -5.5)).all()
    assert len(np.unique(models)) == 6  # each attacker draws its own
    far = Fang(against="trimmed_mean", knowledge="buffer", stretch=10).craft(seen)
    assert (np.abs(far + np.array([10, -10])) < 11 + 1e-6).all()


def test_without_the_others_parameters_are_three_to_four_deviations_away() -> None:
    own = np.array([[1.0, -2], [3, -4]])  # mean (2, -3), deviation sqrt 2
    crafted = Fang(against="trimmed_mean").craft(view(own, honest(4, 2)))
    deviations = (crafted - np.array([2, -3])) / np.sqrt(2) * np.array([-1, 1])
    assert ((deviations >= 3 - 1e-6) & (deviations <= 4 + 1e-6)).all()


def test_the_trimmed_mean_is_moved_against_the_honest_direction() -> None:
    others = honest(14, spread=0.3)
    crafted = Fang(against="trimmed_mean", knowledge="buffer").craft(view(honest(6, seed=1), others))
    rule, weights = TrimmedMean(byzantine=3), np.full(20, 0.05)
    attacked = rule.aggregate(np.concatenate([crafted, others]), weights)
    plain = rule.aggregate(np.concatenate([honest(6, seed=1, spread=0.3), others]), weights)
    assert (attacked < plain).mean() > 0.9


@pytest.mark.parametrize("against", ["krum", "trimmed_mean"])
@pytest.mark.parametrize("knowledge", ["colluders", "buffer"])
def test_the_attack_keeps_the_laws(against: str, knowledge: str) -> None:
    check_attack(Fang(against=against, knowledge=knowledge), any_order=against == "krum")


def test_knowledge_of_its_own_update_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="knowledge must be colluders or buffer, got own"):
        TypeAdapter(AnyAttack).validate_python({"kind": "fang", "knowledge": "own"})
