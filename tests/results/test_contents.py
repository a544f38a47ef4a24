"""What stands on the pages of results, of small rows made by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd

from asyncfl.results.score import score_of
from asyncfl.results.site.contents import ClaimView, FigureView, PaperView, SectionView
from asyncfl.results.site.papers import paper_of
from asyncfl.results.site.standard import Standard


def claim(verdict: str, leaning: str = "", estimate: float | None = None, **row: Any) -> ClaimView:
    shown = None if estimate is None else Standard(estimate, 0.0, 0.0, False, "sd")
    return ClaimView({"verdict": verdict, "leaning": leaning, "undecided": "", **row}, "a", "p.html", shown)


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
