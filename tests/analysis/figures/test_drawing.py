from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from asyncfl.analysis.figures.drawing import (
    bound_lines,
    log_ticks,
    scale_in,
)  # fmt: skip


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


def test_a_table_is_written_in_what_its_largest_value_wants_and_a_logarithmic_axis_in_what_the_middle_does() -> None:
    means = [2.0, 5e6, 7e9, np.inf, -8e9]
    table = pd.DataFrame({"metric": ["bytes_up"] * 5, "mean": means})
    table = pd.concat([table, pd.DataFrame({"metric": ["train_loss"], "mean": [1e15]})])
    assert scale_in(table, ["bytes_up", "train_loss"]).factor == 1e9
    assert scale_in(table[table["mean"] > 0], ["bytes_up"], log=True).factor == 1e6


def test_a_bound_is_drawn_where_it_is_finite_with_a_ring_at_its_minimum(axis: Any) -> None:
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
