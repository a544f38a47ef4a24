"""Ticks of logarithmic axes, and what legends say of seeds that diverged."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from asyncfl.analysis.figures.drawing import diverged_in_words, log_ticks


@pytest.fixture
def axes() -> Iterator[Axes]:
    figure = plt.figure()
    yield figure.add_subplot()
    plt.close(figure)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 10.0, [1.0, 2.0, 3.0, 5.0, 10.0]),
        (1.0, 1000.0, [1.0, 10.0, 100.0, 1000.0]),
    ],
)
def test_an_axis_that_begins_or_ends_at_a_tick_shows_it(
    axes: Axes, low: float, high: float, ticks: list[float]
) -> None:
    axes.set_yscale("log")
    log_ticks(axes.yaxis, low, high)
    found = axes.yaxis.get_major_locator()()
    assert found[0] == pytest.approx(ticks[0])
    assert found[-1] == pytest.approx(ticks[-1])


def test_a_legend_tells_how_many_diverged() -> None:
    assert diverged_in_words(pd.DataFrame({"diverged": [0.0, 2.0, 1.0]})) == " (2 diverged)"
    assert diverged_in_words(pd.DataFrame({"diverged": [np.nan, 0.0]})) == ""
    assert diverged_in_words(pd.DataFrame({"diverged": []})) == ""
