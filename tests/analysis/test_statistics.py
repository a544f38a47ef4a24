import numpy as np
import pytest

from asyncfl.analysis.statistics import half_width


def test_the_t_interval_of_five_numbers_by_hand():
    # mean 3, sd sqrt(2.5), t(4, .975) = 2.776445
    assert half_width(np.array([1.0, 2, 3, 4, 5])) == pytest.approx(2.776445 * np.sqrt(2.5 / 5), abs=1e-6)
