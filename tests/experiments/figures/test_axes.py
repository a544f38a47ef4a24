"""Ticks and ranges of axes: what a reader can read off them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from asyncfl.base.figure_style import styled
from asyncfl.experiments.figures import Bars, Curves
from asyncfl.experiments.figures.drawing import OWN
from asyncfl.experiments.intervals import over_seeds


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_the_own_values_of_two_seeds_are_seen(kind):
    frame = pd.DataFrame(
        [{"rule": "mean", "round": r, "y": 2.0 * r + s, "diverged": False} for r in (1, 2) for s in (0, 1)]
    )
    with styled():
        figure, axes = plt.subplots()
        if kind == "curves":
            rows = over_seeds(frame, ["rule"], by_round=True)
            Curves(y="y").draw_panel(axes, {}, [None], {}, {"curves": rows})
        else:
            rows = over_seeds(frame[frame["round"] == 2], ["rule"], by_round=False)
            Bars(x="rule", y="y").draw_panel(axes, {}, [None], {"rule": ("mean",)}, {"final": rows})
            Bars(x="rule", y="y").frame_panel(axes)
        own = [np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_label() == OWN]
        plt.close(figure)
    wanted = [[2.0, 4.0], [3.0, 5.0]] if kind == "curves" else [[4.0], [5.0]]
    np.testing.assert_allclose(own, wanted, atol=1e-4)
