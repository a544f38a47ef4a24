"""ALIE: z and uploads."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.threats import Alie, alie_z


@pytest.mark.parametrize(
    ("collected", "attackers", "share"),
    [
        (50, 24, 24 / 26),  # s = 2
        (10, 4, 4 / 6),  # s = 2
        (10, 5, 4 / 5),  # s = 1
        (11, 5, 5 / 6),  # s = 1
        (25, 5, 12 / 20),  # s = 8
    ],
)
def test_z_is_the_normal_quantile_of_the_published_share(collected, attackers, share):
    z = alie_z(collected, attackers)
    assert 0.5 * (1 + math.erf(z / math.sqrt(2))) == pytest.approx(share, abs=1e-12)


def test_z_is_zero_for_too_few_attackers():
    assert [alie_z(n, f) for n, f in [(1, 0), (1, 1), (2, 1), (10, 0), (10, 1), (10, 2)]] == [0.0] * 6
    assert alie_z(10, 3) > 0


@given(st.integers(1, 200), st.data())
def test_z_grows_with_the_attackers(collected, data):
    attackers = data.draw(st.integers(0, collected - 1))
    assert 0 <= alie_z(collected, attackers) <= alie_z(collected, attackers + 1) < 3


@pytest.mark.parametrize(("collected", "attackers"), [(0, 0), (5, 6), (5, -1)])
def test_impossible_numbers_of_attackers_are_refused(collected, attackers):
    with pytest.raises(ValueError, match="attackers must be"):
        alie_z(collected, attackers)


def test_fixed_z_agrees_with_byzfl(make_view):
    # byzfl 0.0.11 adds tau deviations, so its tau is -z.
    crafted = Alie(z=1.25).craft(make_view())
    expected = [-0.24129926, -1.88478141, -3.11374306, -1.74314776]
    np.testing.assert_allclose(crafted, [expected] * 4, rtol=1e-7)


def test_mean_and_deviation_of_the_whole_buffer(make_view):
    view = make_view(honest=[[9, 9]], others=[[1, 0], [3, 2], [5, 4]])
    np.testing.assert_allclose(Alie(z=1, knowledge="buffer").craft(view), [[3 - 2, 2 - 2]])


def test_lone_attacker_is_honest(make_view):
    np.testing.assert_array_equal(Alie().craft(make_view(honest=[[1, -2]], others=[[5, 5]])), [[1, -2]])
