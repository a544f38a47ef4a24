import numpy as np
import pytest

from asyncfl.experiments.intervals import OF_TWO, convention, drawn_convention, half_width


def test_two_seeds_give_an_interval_so_many_times_their_difference():
    assert half_width(np.array([-1.0, 1.0])) == pytest.approx(OF_TWO, abs=5e-4)


def test_captions_state_the_interval_that_a_figure_draws():
    own = "thin lines their own values, as the 95 % t interval is 12.7 times as wide"
    assert drawn_convention([], 2, "thin lines") == f"mean over n = 2 seeds, {own}"
    assert drawn_convention([], 6, "thin lines") == convention(6)
    assert drawn_convention([3], 6, "thin lines") == f"{convention(6)}, in some cells 3"
    assert drawn_convention([2, 3], 6, "thin lines") == f"{convention(6)}, in some cells 2 or 3, of two {own}"
    assert drawn_convention([3], 6, "") == "mean over n = 6 seeds, in some cells 3"  # a heat map draws no spread
    assert drawn_convention([], 2, "") == "mean over n = 2 seeds"
    assert drawn_convention([], 1, "") == drawn_convention([], 1, "dashes") == convention(1)
