from collections.abc import Iterator
from typing import Any

import pytest
from matplotlib import pyplot

from asyncfl.experiments.figures.drawing import log_ticks


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
