"""Ticks and ranges of axes: what a reader can read off them."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from asyncfl.analysis.figures import Bars, Curves
from asyncfl.analysis.figures.bars import decade_below
from asyncfl.analysis.figures.coinciding import OWN
from asyncfl.analysis.figures.drawing import log_label, log_ticks, look_at, spread
from asyncfl.analysis.over_seeds import over_seeds
from asyncfl.analysis.statistics import half_width
from asyncfl.analysis.style import styled


@pytest.mark.parametrize("limits", [(0.5, 2.0), (0.9, 1.2), (4.0, 60.0), (12.0, 900.0), (0.03, 3000.0), (1e-2, 1e18)])
def test_a_logarithmic_axis_has_three_to_ten_ticks(limits):
    with styled():
        _, axes = plt.subplots()
        axes.set_yscale("log")
        axes.set_ylim(*limits)
        log_ticks(axes.yaxis, *limits)
        ticks = [tick for tick in axes.get_yticks() if limits[0] <= tick <= limits[1]]
        plt.close("all")
    assert 3 <= len(ticks) <= 10


def test_an_axis_that_begins_at_a_tick_shows_it():
    with styled():
        _, axes = plt.subplots()
        axes.set_yscale("log")
        axes.set_ylim(float(np.exp(np.log(0.1))), 30)
        log_ticks(axes.yaxis, *axes.get_ylim())
        ticks = list(axes.get_yticks())
        plt.close("all")
    assert ticks[0] == pytest.approx(0.1)


def test_far_ticks_are_powers_of_ten():
    assert [log_label(value) for value in (0.003, 1, 5000, 10_000)] == ["0.003", "1", "5000", "10000"]
    assert [log_label(value) for value in (1e8, 1e-5)] == ["$10^{8}$", "$10^{-5}$"]


def test_bars_on_a_logarithmic_axis_begin_at_the_power_of_ten_below_them():
    assert decade_below(np.array([12.0, 300.0, np.nan, np.inf, 0.0])) == 10.0
    assert decade_below(np.array([10.0, 300.0])) == 1.0  # a bar of no height would say nothing
    assert decade_below(np.array([0.02])) == pytest.approx(0.01)
    assert decade_below(np.array([np.nan])) == 1.0


@pytest.mark.parametrize(
    ("values", "low", "high"), [([0.0, 40.0], -1.4, 46), ([0.0, 0.0], -0.1, 1.1), ([-1.0, 1.0], -2, 0)]
)
def test_no_axis_of_counts_reaches_far_below_zero(values, low, high):
    with styled():
        _, axes = plt.subplots()
        look_at(axes, [np.array(values)], log=False)
        bottom, top = axes.get_ylim()
        plt.close("all")
    assert low <= bottom <= 0
    assert top >= (high if values[0] == 0 and values[1] == 0 else max(values)) - 0.2


def test_around_means_of_two_seeds_are_their_own_values_and_of_more_the_interval():
    seeds = {1: [4.0], 2: [1.0, 3.0], 3: [1.0, 3.0, 5.0]}
    frame = pd.DataFrame([{"x": n, "y": y, "diverged": False} for n, values in seeds.items() for y in values])
    low, high, own = spread(over_seeds(frame, ["x"], by_round=False))
    half = half_width(np.array(seeds[3]))
    np.testing.assert_allclose(low, [np.nan, 1.0, 3.0 - half], atol=1e-4)
    np.testing.assert_allclose(high, [np.nan, 3.0, 3.0 + half], atol=1e-4)
    assert own.tolist() == [False, True, False]


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
