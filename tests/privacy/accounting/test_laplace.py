"""Equal Laplace releases, against dp-accounting and closed forms."""

import dp_accounting
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy.accounting.laplace import epsilon_of_losses, laplace_epsilons


@pytest.mark.parametrize(
    ("multiplier", "count"), [(10, 2), (10, 7), (1, 20), (100, 1000), (3, 30), (0.5, 5), (0.2, 10)]
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-8])
def test_laplace_epsilon_matches_dp_accounting(multiplier, count, delta):
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(multiplier), count)
    assert laplace_epsilons(count, multiplier, delta) == pytest.approx(
        accountant.get_epsilon(delta), rel=1e-5, abs=1e-5
    )


def test_zero_and_one_release_have_closed_forms():
    # 1 - e^((epsilon - epsilon_0)/2) = delta
    assert laplace_epsilons([0, 1], 2, 0.01) == pytest.approx([0, 0.5 + 2 * np.log(0.99)])
    assert laplace_epsilons([1], 1000, 0.01)[0] == 0


def test_epsilon_of_two_losses_by_hand():
    # P(loss = 1) = .7: .7 (1 - e^(epsilon - 1)) = .1
    assert epsilon_of_losses(np.array([-1.0, 1.0]), np.array([0.3, 0.7]), 0.1) == pytest.approx(1 + np.log(6 / 7))
    assert epsilon_of_losses(np.array([-1.0, 1.0]), np.array([0.95, 0.05]), 0.1) == 0


LOSSES = st.tuples(st.floats(-80, 80), st.floats(1e-6, 1))


@given(st.lists(LOSSES, min_size=1, max_size=12, unique_by=lambda pair: pair[0]), st.floats(1e-6, 0.9))
def test_epsilon_of_losses_solves_its_equation(pairs, delta):
    loss, weight = np.array(sorted(pairs)).T
    probability = weight / weight.sum()

    def excess(epsilon):
        return float(np.sum(probability * -np.expm1(np.minimum(epsilon - loss, 0.0)))) - delta

    found = epsilon_of_losses(loss, probability, delta)
    assert excess(found) <= 1e-12
    assert found == 0 or excess(found * (1 - 1e-6) - 1e-6) >= -1e-12
