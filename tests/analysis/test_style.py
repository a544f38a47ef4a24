"""The look of figures: colours and markers of lines, sizes, and what stands around the axes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot

from asyncfl.analysis.style import MARKERS, OKABE_ITO, around, canvas, canvas_of, looks, save, styled

INF = float("inf")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with styled():
        yield
    pyplot.close("all")


def test_names_and_pairs_of_numbers_have_the_colours_of_a_palette_and_more_numbers_those_of_a_map() -> None:
    for values in (["a", "b", "c"], [1, 2], [True, 2, 3.0]):
        assert [one["color"] for one in looks(values).values()] == list(OKABE_ITO[: len(values)])
    viridis = matplotlib.colormaps["viridis"]
    of_numbers = looks([1, 2.5, 4, INF])
    assert [of_numbers[v]["color"] for v in (1, 2.5, 4)] == [viridis(0.82), viridis(0.82 - 0.38), viridis(0.82 - 0.76)]
    assert of_numbers[INF] == {"color": "#000000", "marker": "", "linestyle": (0, (4, 2))}
    assert list(looks([INF, 1])) == [INF, 1]
    assert looks([INF, 1])[1] == {"color": OKABE_ITO[0], "marker": "o"}


def test_where_colours_come_round_again_dashes_tell() -> None:
    many = looks([f"v{number}" for number in range(10)])
    assert [one["color"] for one in many.values()] == [*OKABE_ITO, *OKABE_ITO[:2]]
    assert [one["marker"] for one in many.values()] == [*MARKERS, *MARKERS[:2]]
    assert [one.get("linestyle") for one in many.values()] == [None] * 8 + [(0, (4, 1.5))] * 2


@pytest.mark.parametrize(("panels", "width"), [(1, 4.6), (2, 4.6), (3, 3.6), (4, 3.6), (5, 2.7)])
def test_panels_are_narrower_where_there_are_many(panels: int, width: float) -> None:
    page, axes = canvas(panels, "", "")
    assert page.get_size_inches() == pytest.approx((panels * width, 3.3 + 0.05 + 0.02))
    assert len(axes) == panels
    own, _ = canvas(panels, "", "", (1.5, 2.0))
    assert own.get_size_inches() == pytest.approx((panels * 1.5, 2.07))


def test_words_around_a_figure_take_room_by_the_line() -> None:
    assert around(4.6, "", "") == ([], [], 0.05, 0.02)
    title, caption = "word " * 20, "word " * 40  # 99 and 199 characters
    heading, lines, head, foot = around(4.0, title, caption)
    assert [len(line) for line in heading] == [44, 44, 9]  # of 46 at most
    assert [len(line) for line in lines] == [74, 74, 49]  # of 76 at most
    assert (head, foot) == pytest.approx((3 * 0.2 + 0.12, 3 * 0.155 + 0.1))


def test_between_them_lies_the_box_of_the_axes() -> None:
    page, box = canvas_of(4.0, 3.0, "below", "above")
    head, foot = 0.32, 0.255
    height = 3.0 + head + foot
    assert page.get_size_inches() == pytest.approx((4.0, height))
    assert box == pytest.approx((0.005, foot / height, 0.99, 3.0 / height))
    title, caption = page.texts
    assert title.get_position() == pytest.approx((0.012, 1 - 0.1 / height), rel=1e-9)
    assert caption.get_position() == pytest.approx((0.012, 0.06 / height), rel=1e-9)
    assert [one.get_va() for one in (title, caption)] == ["top", "bottom"]
    assert [one.get_fontsize() for one in (title, caption)] == [10.5, 6.5]


def test_axes_are_kept_where_the_layout_put_them(tmp_path: Path) -> None:
    page, (axis,) = canvas(1, "A caption.", "A title")
    axis.set_ylabel("y")
    written = save(page, tmp_path / "a.b")
    assert [path.name for path in written] == ["a.b.svg", "a.b.png", "a.b.pdf"]
    assert all(round(side, 6) == pytest.approx(side, abs=1e-12) for side in axis.get_position().bounds)
    assert not pyplot.get_fignums()
