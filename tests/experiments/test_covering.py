from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.experiments.covering import CoveredFactors, covering_array

LEVELS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(LEVELS, st.data())
@settings(max_examples=60)
def test_every_combination_of_any_few_factors_occurs(levels, data):
    strength = data.draw(st.integers(1, min(3, len(levels))))
    rows = covering_array(levels, strength)
    for factors in combinations(range(len(levels)), strength):
        wanted = set(product(*(range(levels[factor]) for factor in factors)))
        assert {tuple(row[factor] for factor in factors) for row in rows} == wanted
    assert all(0 <= level < number for row in rows for level, number in zip(row, levels, strict=True))
    assert len(set(rows)) == len(rows)
    assert rows == covering_array(levels, strength)


@pytest.mark.parametrize(
    ("levels", "strength", "at_most"),
    # Nine rows would do for the first, and the second needs 64: a greedy search adds few.
    [([3, 3, 3, 3], 2, 13), ([16, 4, 4, 3, 3], 2, 68), ([2] * 10, 2, 10), ([3, 4], 2, 12), ([5, 2, 3], 1, 5)],
)
def test_a_covering_array_is_much_smaller_than_the_whole_grid(levels, strength, at_most):
    assert len(covering_array(levels, strength)) <= at_most


def test_a_strength_beyond_the_factors_is_refused():
    with pytest.raises(ValueError, match=r"strength must be 1\.\.2, the factors, got 3"):
        covering_array([2, 2], 3)


def test_settings_are_named_by_their_levels():
    covered = CoveredFactors(
        factors={
            "labels": {"IID": {"data.partition": {"kind": "iid"}}, "shards": {"data.partition": {"kind": "shards"}}},
            "share": {"10 %": {"threats.attackers": 0.1}, "40 %": {"threats.attackers": 0.4}},
        }
    )
    made = covered.settings()
    assert sorted(made) == ["IID, 10 %", "IID, 40 %", "shards, 10 %", "shards, 40 %"]
    assert made["shards, 10 %"] == {"data.partition": {"kind": "shards"}, "threats.attackers": 0.1}
    assert list(covered.doubled()) == []
