from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from asyncfl.analysis.figures.drawing import (
    band,
    bound_lines,
    diverged_in_words,
    log_label,
    log_ticks,
    look_at,
    scale_in,
    several_ticks,
    share_y,
    spread,
    whole_numbers,
)  # fmt: skip
from asyncfl.analysis.statistics import OF_TWO


def test_around_means_is_an_interval_or_the_two_values_or_nothing_where_two_are_left() -> None:
    rows = pd.DataFrame(
        {"mean": [1.0, 1.0, 1.0], "low": [0.5, 1 - OF_TWO, 0.0], "high": [1.5, 1 + OF_TWO, 2.0]}
        | {"seeds": [3, 2, 2], "diverged": [0, 0, 1]}
    )
    low, high, own = spread(rows)
    np.testing.assert_allclose(low, [0.5, 0.0, np.nan])
    np.testing.assert_allclose(high, [1.5, 2.0, np.nan])
    assert own.tolist() == [False, True, False]


@pytest.fixture
def axis() -> Iterator[Any]:
    page, axis = pyplot.subplots()
    yield axis
    pyplot.close(page)


@pytest.mark.parametrize(
    ("values", "log", "base", "limits"),
    [
        ([5.0, 10.0], False, None, (4.4, 10.6)),
        ([0.5, 10.0], False, None, (-0.03 * 11.14, 11.14)),
        ([0.0, 10.0], False, None, (-0.03 * 11.2, 11.2)),
        ([-1.0, 1.0], False, None, (-1.24, 1.24)),
        ([3.0, 3.0], False, None, (2.85, 3.15)),
        ([-4.0, -4.0], False, None, (-4.2, -3.8)),
        ([0.0, 0.0], False, None, (-0.03, 1.0)),
        ([5.0, 10.0], False, 0.0, (0.0, 11.2)),
        ([1.0, 100.0, -3.0, np.nan, np.inf], True, None, (100**-0.12, 100**1.12)),
        ([10.0, 100.0], True, 1.0, (1.0, 100**1.12)),
        ([0.01, 0.1], True, 1.0, (100**-1.12, 1.0)),
    ],
)
def test_an_axis_holds_values_with_some_room(
    axis: Any, values: list[float], log: bool, base: float | None, limits: tuple[float, float]
) -> None:
    look_at(axis, [np.array(values[:1]), np.array(values[1:])], log, base)
    assert axis.get_ylim() == pytest.approx(limits)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.003, "0.003"),
        (0.0001, "$10^{-4}$"),
        (1.0, "1"),
        (10_000.0, "10000"),
        (1e5, "$10^{5}$"),
        (3e5, "300000"),
    ],
)
def test_far_powers_of_ten_are_told_as_powers(value: float, said: str) -> None:
    assert log_label(value) == said


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


def test_how_many_diverged_is_told_of_the_worst_point() -> None:
    assert diverged_in_words(pd.DataFrame({"diverged": [0, np.nan, 2, 1]})) == " (2 diverged)"
    assert diverged_in_words(pd.DataFrame({"diverged": [0, np.nan]})) == ""
    assert diverged_in_words(pd.DataFrame({"diverged": []})) == ""


def test_a_table_is_written_in_what_its_largest_value_wants_and_a_logarithmic_axis_in_what_the_middle_does() -> None:
    means = [2.0, 5e6, 7e9, np.inf, -8e9]
    table = pd.DataFrame({"metric": ["bytes_up"] * 5, "mean": means})
    table = pd.concat([table, pd.DataFrame({"metric": ["train_loss"], "mean": [1e15]})])
    assert scale_in(table, ["bytes_up", "train_loss"]).factor == 1e9
    assert scale_in(table[table["mean"] > 0], ["bytes_up"], log=True).factor == 1e6


def test_panels_share_a_range_that_holds_all_and_one_name(axis: Any) -> None:
    other = axis.figure.add_subplot()
    for one, limits in ((axis, (1, 5)), (other, (-2, 3))):
        one.set_ylim(*limits)
        one.set_ylabel("loss")
    share_y([axis, other])
    assert axis.get_ylim() == other.get_ylim() == (-2, 5)
    assert (axis.get_ylabel(), other.get_ylabel()) == ("loss", "")


def test_ticks_are_whole_numbers_or_three_at_least(axis: Any) -> None:
    whole_numbers(axis)
    axis.set_xlim(0, 2)
    assert all(float(tick).is_integer() for tick in axis.get_xticks())
    axis.yaxis.get_major_locator().set_params(nbins=1)
    several_ticks(axis.yaxis)
    axis.set_ylim(0, 1)
    assert ((axis.get_yticks() >= 0) & (axis.get_yticks() <= 1)).sum() >= 3


def test_a_bound_is_drawn_where_it_is_defined_with_a_ring_at_its_best(axis: Any) -> None:
    table = pd.DataFrame({"K": [3, 1, 2, 4], "bound": [5.0, 4.0, 2.0, np.nan], "e": [1.0, 1.0, 1.0, 1.0]})
    bound_lines(axis, "K", "e", [1.0, np.inf, 7.0], table, {})
    line, ring, empty = axis.lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1, 2, 3], [4.0, 2.0, 5.0])
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([2], [2.0])
    assert len(empty.get_xdata()) == 0
    assert line.get_marker() != ""
    for points, marked in ((12, True), (13, False)):
        axis.clear()
        bound_lines(axis, "K", None, [None], pd.DataFrame({"K": range(points), "bound": np.arange(points) * 1.0}), {})
        assert (axis.lines[0].get_marker() != "") is marked


def test_intervals_are_bands_and_two_values_are_lines(axis: Any) -> None:
    rows = pd.DataFrame(
        {"mean": [1.0, 1.0], "low": [0.5, 1 - OF_TWO], "high": [1.5, 1 + OF_TWO], "seeds": [3, 2], "diverged": [0, 0]}
    )
    band(axis, np.array([1.0, 2.0]), rows, {"color": "#123456", "marker": "o"}, "a")
    mean, low, high = axis.lines
    assert mean.get_ydata().tolist() == [1.0, 1.0]
    np.testing.assert_allclose(low.get_ydata(), [np.nan, 0.0])
    np.testing.assert_allclose(high.get_ydata(), [np.nan, 2.0])
