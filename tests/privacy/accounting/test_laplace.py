"""Equal Laplace releases, against dp-accounting and closed forms."""

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting.laplace import epsilon_of_losses, laplace_epsilons


def test_a_hundred_small_ones():
    assert laplace_epsilons(100, 10, 1e-5) == pytest.approx(4.22035, abs=5e-6)


@pytest.mark.parametrize(
    ("multiplier", "count"), [(10, 2), (10, 7), (1, 20), (100, 1000), (3, 30), (0.5, 5), (0.2, 10)]
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_it_is_that_of_dp_accounting(multiplier, count, delta):
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(multiplier), count)
    assert laplace_epsilons(count, multiplier, delta) == pytest.approx(
        accountant.get_epsilon(delta), rel=1e-5, abs=1e-5
    )


def test_a_delta_near_1_leaves_the_low_losses_to_be_counted():
    # dp-accounting says 11.60826. Epsilon lies far below the mean loss of 49.9. What is set aside for losses outside
    # the grid, a millionth, is a hundredth of the 1e-4 that is left: hence a little more.
    assert 11.60826 <= laplace_epsilons(1000, 3, 0.9999) <= 11.60826 + 0.03


def test_one_and_none_are_closed_forms():
    # 1 - e^((epsilon - epsilon_0)/2) = delta
    assert laplace_epsilons([0, 1], 2, 0.01) == pytest.approx([0, 0.5 + 2 * np.log(0.99)])
    assert laplace_epsilons([1], 1000, 0.01)[0] == 0


@settings(deadline=None, max_examples=15)
@given(st.floats(0.1, 100), st.integers(1, 60), st.floats(1e-8, 0.1))
def test_more_releases_never_cost_less_and_never_more_than_their_sum(multiplier, most, delta):
    found = laplace_epsilons(np.arange(most + 1), multiplier, delta)
    # Neighbouring numbers may stand on grids of different fineness.
    assert (np.diff(found) >= -1e-5 * (1 + found[1:])).all()
    assert (found <= np.arange(most + 1) / multiplier + 1e-5).all()


def test_losses_of_two_points():
    # P(loss = 1) = .7: .7 (1 - e^(epsilon - 1)) = .1
    assert epsilon_of_losses(np.array([-1.0, 1.0]), np.array([0.3, 0.7]), 0.1) == pytest.approx(1 + np.log(6 / 7))
    assert epsilon_of_losses(np.array([-1.0, 1.0]), np.array([0.95, 0.05]), 0.1) == 0
