import numpy as np
import pytest

from asyncfl.data.partition import Quantity
from asyncfl.data.partition.quantity import apportion


def test_largest_remainders_by_hand():
    # exact shares of 10 by 5 : 3 : 1 are 5.56, 3.33 and 1.11; the one that is left goes to the first
    np.testing.assert_array_equal(apportion(10, np.array([5.0, 3.0, 1.0])), [6, 3, 1])
    np.testing.assert_array_equal(apportion(2, np.array([1.0, 1.0, 1.0])), [1, 1, 0])


def test_power_law_by_hand():
    partition = Quantity(distribution="power", spread=1.0, min_samples=1)
    sizes = partition.sizes(3, 23, np.random.default_rng(0))  # 66 above the minimum, as 1 : 1/2 : 1/3
    assert sorted(sizes) == [13, 19, 37]


def test_spread_is_the_standard_deviation_of_the_logarithm():
    sizes = Quantity(spread=0.5, min_samples=1).sizes(4000, 1000, np.random.default_rng(0))
    assert np.log(sizes).std() == pytest.approx(0.5, rel=0.05)


def test_the_smallest_size_is_respected():
    sizes = Quantity(spread=4.0, min_samples=7).sizes(50, 30, np.random.default_rng(0))
    assert sizes.min() == 7
    assert sizes.sum() == 1500
