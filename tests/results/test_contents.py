"""What stands on the pages of results, of small rows made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from asyncfl.results.score import score_of
from asyncfl.results.site.contents import ClaimView, FigureView, PaperView, SectionView, size_of
from asyncfl.results.site.papers import paper_of
from asyncfl.results.site.standard import Standard


def claim(verdict: str, leaning: str = "", estimate: float | None = None, **row: Any) -> ClaimView:
    shown = None if estimate is None else Standard(estimate, 0.0, 0.0, False, "sd")
    return ClaimView({"verdict": verdict, "leaning": leaning, "undecided": "", **row}, "a", "p.html", shown)


@pytest.mark.parametrize(
    ("verdict", "leaning", "told", "mark", "look"),
    [
        ("holds", "does not hold", "", "✓", "holds"),
        ("does not hold", "", "", "✗", "does-not-hold"),
        ("not decided", "", "", "?", "not-decided"),
        ("not decided", "does not hold", "does not hold", "?", "not-decided leans-does-not-hold"),
        ("not run", "", "", "–", "not-run"),
    ],
)
def test_a_verdict_has_a_mark_and_a_class_and_leans_where_it_is_open(
    verdict: str, leaning: str, told: str, mark: str, look: str
) -> None:
    view = claim(verdict, leaning)
    assert (view.verdict, view.leaning, view.mark, view.look) == (verdict, told, mark, look)


def section(name: str, shown: list[ClaimView], others: list[ClaimView]) -> SectionView:
    figure = FigureView("f", "", "", True, False, "", claims=shown)
    return SectionView(name, "", "", "", [figure], others, [], [], [])


def test_a_paper_has_the_claims_of_its_sections_those_of_figures_first() -> None:
    one, two, three = claim("holds", estimate=-1.0), claim("does not hold", estimate=3.0), claim("holds")
    four = claim("not decided", estimate=0.5)
    sections = [section("nbafl/figure 2: b", [two], [one]), section("b", [three], [four])]
    view = PaperView(paper_of("safl"), score_of(pd.DataFrame({"verdict": [], "leaning": []})), sections)
    assert [one.anchor for one in sections] == ["nbafl-figure-2-b", "b"]
    assert view.file == "safl.html"
    assert view.claims == [two, one, three, four]
    assert view.with_verdict("holds") == [one, three]
    assert view.forest == [two, four, one]


def test_an_svg_says_how_large_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    file.write_text('<?xml?><svg height="144pt" viewBox="0 0 1 1" width="331.2pt">')
    assert size_of(file) == pytest.approx((4.6, 2.0))
    file.write_text('<svg width="72pt" max-height="9pt">')
    assert size_of(file) == (1.0, pytest.approx(9 / 72))
    file.write_text("<svg>")
    assert size_of(file) == (0.0, 0.0)
