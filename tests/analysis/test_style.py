"""The look of figures: colours and markers of lines, sizes, and what stands around the axes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib import pyplot

from asyncfl.analysis.style import OKABE_ITO, canvas, looks, save, styled


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with styled():
        yield
    pyplot.close("all")


def test_repeated_colours_have_other_dashes() -> None:
    many = looks([f"v{number}" for number in range(10)])
    assert [one["color"] for one in many.values()] == [*OKABE_ITO, *OKABE_ITO[:2]]
    assert [one.get("linestyle") for one in many.values()] == [None] * 8 + [(0, (4, 1.5))] * 2


def test_axes_are_kept_where_the_layout_put_them(tmp_path: Path) -> None:
    page, (axis,) = canvas(1, "A caption.", "A title")
    axis.set_ylabel("y")
    written = save(page, tmp_path / "a.b")
    assert [path.name for path in written] == ["a.b.svg", "a.b.png", "a.b.pdf"]
    assert all(round(side, 6) == pytest.approx(side, abs=1e-12) for side in axis.get_position().bounds)
    assert not pyplot.get_fignums()
