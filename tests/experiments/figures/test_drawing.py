"""Ticks, and lines that lie on each other: each is seen, none is drawn where it is not."""

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex

from asyncfl.experiments.figures.drawing import OWN, log_ticks, take_turns
from asyncfl.results.figure_style import styled


@pytest.fixture
def axis() -> Iterator[Any]:
    page, axis = pyplot.subplots()
    yield axis
    pyplot.close(page)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 1e4, [1, 10, 100, 1000, 10_000]),
        (1.0, 200.0, [1, 10, 100]),
        (2.0, 300.0, [3, 10, 30, 100, 300]),
        (1.0, 10.0, [1, 2, 3, 5, 10]),
        (4.0, 12.0, [4, 5, 6, 7, 8, 9, 10]),
        (10.0, 11.0, [10.2, 10.5, 10.8]),
        (1.0, 1e24, [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_three_to_ten(axis: Any, low: float, high: float, ticks: list[float]) -> None:
    log_ticks(axis.yaxis, low, high)
    assert axis.yaxis.get_major_locator()() == pytest.approx(ticks)
    assert len(axis.yaxis.get_minor_locator()()) == 0


@pytest.fixture
def axes() -> Iterator[Any]:
    """Axes of 10 by 10 inches, 0..10 each way: a point is 1/72."""
    with styled():
        figure = plt.figure(figsize=(10, 10), dpi=100)
        made = figure.add_axes((0, 0, 1, 1))
        made.set(xlim=(0, 10), ylim=(0, 10))
        yield made
        plt.close(figure)


def colours_along(axes: Any, y: float) -> set[str]:
    """Colours to be seen on a height, between the markers."""
    axes.axis("off")
    axes.figure.canvas.draw()
    picture = np.asarray(axes.figure.canvas.buffer_rgba())[::-1]
    row = picture[round(y * 100), :, :3] / 255
    return {to_hex(colour) for colour in np.unique(row, axis=0)}


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def test_coinciding_lines_show_every_colour(axes: Any) -> None:
    for colour in COLOURS:
        axes.plot([0, 5, 10], [4, 4, 4], color=colour)
    assert not set(COLOURS[:3]) & colours_along(axes, 4)  # the last hides the others
    take_turns(axes)
    assert set(COLOURS) <= colours_along(axes, 4)


def test_lines_that_cross_or_lie_apart_stay_as_they_are(axes: Any) -> None:
    axes.plot([0, 10], [0, 10], "o-")
    axes.plot([0, 10], [10, 0], "s-")
    axes.plot([0, 10], [3, 3.1], "^-")
    axes.plot([0, 10], [np.nan, 3], "x-")
    axes.plot([3, 1], [3, 3], "x-")  # goes left: not a value for each x
    take_turns(axes)
    assert len(axes.lines) == 5
    assert [line.get_markevery() for line in axes.lines] == [None] * 5


def test_markers_at_one_place_stand_beside_each_other(axes: Any) -> None:
    for colour, marker in zip(COLOURS[:3], "os^", strict=True):
        axes.plot([0, 5, 10], [4, 4 if marker == "o" else 6, 7], marker, color=colour)
    axes.lines[2].set_markevery(2)
    take_turns(axes)
    aside = [line for line in axes.lines if line.get_label() == OWN]
    axes.figure.canvas.draw()
    at = [line.get_transform().transform(line.get_xydata())[0] for line in aside]
    assert [line.get_marker() for line in aside] == ["o", "s", "^", "o", "s", "^"]
    pixels = [x - at[1][0] for x, _ in at[:3]]
    assert pixels == pytest.approx([-4 / 0.72, 0, 4 / 0.72])
    assert at[1] == pytest.approx(axes.transData.transform((0, 4)))
    assert [y for _, y in at[:3]] == pytest.approx([400] * 3)
    assert [line.get_markevery() for line in axes.lines[:3]] == [[1], [1], []]
