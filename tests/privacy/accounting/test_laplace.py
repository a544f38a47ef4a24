"""Equal Laplace releases, against dp-accounting and closed forms."""

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.privacy.accounting import laplace
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


LOSSES = st.tuples(st.floats(-80, 80), st.floats(1e-6, 1))


@given(st.lists(LOSSES, min_size=1, max_size=12, unique_by=lambda pair: pair[0]), st.floats(1e-6, 0.9))
def test_epsilon_is_where_what_lies_above_it_is_delta(pairs, delta):
    loss, weight = np.array(sorted(pairs)).T
    probability = weight / weight.sum()

    def excess(epsilon):
        return float(np.sum(probability * -np.expm1(np.minimum(epsilon - loss, 0.0)))) - delta

    found = epsilon_of_losses(loss, probability, delta)
    assert excess(found) <= 1e-12
    assert found == 0 or excess(found * (1 - 1e-6) - 1e-6) >= -1e-12


def test_losses_that_lie_far_apart():
    # Half of the mass lies at 61 and is all that delta covers: nothing more is needed below.
    assert epsilon_of_losses(np.array([0.0, 61.0]), np.array([0.5, 0.5]), 0.5) == pytest.approx(0.0, abs=1e-12)
    assert epsilon_of_losses(np.array([3.0, 900.0]), np.array([0.5, 0.5]), 0.6) == pytest.approx(3 + np.log(0.8))


@pytest.mark.parametrize(("count", "epsilon_0", "delta"), [(1, 0.5, 1e-5), (64, 0.1, 1e-5), (1000, 2.0, 0.3)])
def test_sums_of_losses_seldom_lie_outside_of_the_grid(count, epsilon_0, delta):
    # Hoeffding, for losses between -epsilon_0 and epsilon_0: 2 e^(-t^2 / (2 n epsilon_0^2)) is a millionth of delta.
    t = laplace._half_width(count, epsilon_0, delta)
    if t < 2 * count * epsilon_0:
        assert 2 * np.exp(-(t**2) / (2 * count * epsilon_0**2)) == pytest.approx(1e-6 * delta)
    else:
        assert t == 2 * count * epsilon_0
        assert 2 * np.exp(-(t**2) / (2 * count * epsilon_0**2)) >= 1e-6 * delta


@pytest.mark.parametrize(("largest", "epsilon_0", "delta"), [(2, 0.5, 1e-3), (64, 0.01, 1e-5), (256, 3.0, 1e-5)])
def test_a_loss_on_the_grid_has_the_curve_of_the_loss_at_its_points(largest, epsilon_0, delta):
    transform, points, step, mean = laplace._transform(largest, epsilon_0, delta)
    circle = np.fft.irfft(transform, points)
    steps = round(epsilon_0 / step)
    at = np.arange(-steps, steps + 1)
    mass, loss = circle[at % points], at * step
    assert epsilon_0 / step == pytest.approx(steps)
    assert mass.sum() == pytest.approx(1.0)
    assert mean == pytest.approx(mass @ loss)
    for epsilon in loss[:: max(len(loss) // 7, 1)]:
        curve = np.sum(mass * -np.expm1(np.minimum(epsilon - loss, 0.0)))
        assert curve == pytest.approx(-np.expm1((epsilon - epsilon_0) / 2), abs=1e-9)
    # As fine as a thousandth, where there is room for all sums of losses.
    width = 2 * laplace._half_width(largest, epsilon_0, delta) + 4 * epsilon_0
    assert points / 2 <= width / step + 2 <= points <= 2**15
    assert step <= max(1e-3, 1.1 * width / 2**15)
    assert step > 0.9 * max(1e-3, 1.1 * width / 2**15)


def test_neighbouring_numbers_of_releases_share_a_grid():
    assert [laplace._grid_for(count) for count in (0, 1, 2, 3, 4, 5, 8, 9, 1000)] == [1, 1, 2, 4, 4, 8, 8, 16, 1024]
