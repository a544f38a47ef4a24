"""What stands on the pages of results: papers, their experiments, figures, claims and runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.figure_style import around
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.figure_files import CAPTIONS
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.grid import describe, several
from asyncfl.experiments.run_tables import read_csv
from asyncfl.experiments.verdicts import Finished
from asyncfl.experiments.wording import Score, explained, privacy_sentences, rows_of, score_of, with_power

MARKS = {"holds": "✓", "does not hold": "✗", "not decided": "?", "not run": "–"}
"""Verdict -> the letter that stands for it, so that colour is not needed to tell them apart."""
CLIP = 10.0
"""Distance from the threshold at which pictures of estimates end; what lies beyond is drawn there."""


@dataclass(frozen=True)
class Paper:
    """A paper, or a theme of our own."""

    key: str
    """As in an experiment's `source.paper`."""
    name: str
    about: str
    """One line: authors and title, or what is asked."""
    link: str = ""


_KNOWN = (
    Paper(
        "nbafl",
        "NbAFL",
        "Wei et al., Federated Learning with Differential Privacy: Algorithms and Performance Analysis (2020)",
        "https://arxiv.org/abs/1911.00222",
    ),
    Paper("safl", "SAFL", "Asynchronous federation with local differential privacy and poison detection"),
    Paper("adaptive", "adaptive DP", "Xu, Tong, Dai: federated learning with adaptive differential privacy"),
    Paper("mechanisms", "mechanisms", "Gaussian and Laplace noise, at the clients, at the server, at both"),
    Paper(
        "dp_fedavg",
        "DP-FedAvg",
        "McMahan et al., Learning Differentially Private Recurrent Language Models (2018)",
        "https://arxiv.org/abs/1710.06963",
    ),
    Paper(
        "FedPAQ",
        "FedPAQ",
        "Reisizadeh et al., FedPAQ: A Communication-Efficient Federated Learning Method (2020)",
        "https://arxiv.org/abs/1909.13014",
    ),
    Paper("defence", "defences", "Our own: which defence holds against which attack, and where none can"),
    Paper("ledger", "ledger", "Our own: what the noise of several papers is worth in one accounting"),
    Paper("audit", "audit", "Our own: what an attacker finds out, beside what is proven"),
)


def paper_of(key: str) -> Paper:
    """Return the paper of an experiment's `source.paper`; one that is not known here goes by that name."""
    return next((paper for paper in _KNOWN if paper.key == key), Paper(key, key, ""))


def file_of_paper(key: str) -> str:
    """Return the file name of a paper's page: letters, digits, `-` and `_`."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in key) + ".html"


def place_of(key: str) -> int:
    """Return a paper's sort key: those that are not known here stand before our own themes."""
    keys = [paper.key for paper in _KNOWN]
    return 2 * keys.index(key) if key in keys else 2 * keys.index("ledger") - 1


@dataclass(frozen=True)
class Standard:
    """An estimate and its interval, clipped to -10..10; above 0 the claim is true."""

    estimate: float
    low: float
    high: float
    clipped: bool
    """Whether the estimate itself lies beyond."""
    unit: str
    """What 1 is: `margin`, `sd`, `tolerated share`; empty for values without spread."""


def standard(row: Mapping[Hashable, Any]) -> Standard | None:
    """Put the estimate of a claim on a scale that all claims share.

    Its distance from the threshold, above 0 where it speaks for the claim, is divided by the margin that the claim
    grants, else by the standard deviation between seeds (of counts: by the share of runs that may break the claim).
    None where nothing was compared, or its spread is not known. row: of the table of claims.
    """
    names = ("effect", "low", "high", "threshold", "direction", "margin", "sd")
    number = {name: math.nan if row[name] in ("", None) else float(row[name]) for name in names}
    if math.isnan(number["direction"]) or math.isnan(number["effect"]):
        return None
    sizes = [("margin", number["margin"]), ("sd", number["sd"])]
    if row["kind"] == "count":
        sizes = [("tolerated share", number["threshold"])]
    elif row["kind"] == "deterministic":
        sizes.append(("", math.nan))
    unit, size = next(((unit, size) for unit, size in sizes if size > 0 or unit == ""), (None, math.nan))
    if unit is None:
        return None

    def scaled(value: float) -> float:
        distance = number["direction"] * (value - number["threshold"])
        if distance == 0 or math.isnan(distance):
            return 0.0
        return distance / size if size > 0 else math.copysign(math.inf, distance)

    at = scaled(number["effect"])
    low, high = sorted((scaled(number["low"]), scaled(number["high"])))
    estimate, low, high = (float(np.clip(value, -CLIP, CLIP)) for value in (at, low, high))
    return Standard(estimate, low, high, abs(at) > CLIP, unit)


@dataclass(frozen=True)
class ClaimView:
    """A claim with its verdict."""

    row: Mapping[Hashable, Any]
    """Of the table of claims."""
    anchor: str
    estimate: Standard | None

    @property
    def verdict(self) -> str:
        return str(self.row["verdict"])

    @property
    def leaning(self) -> str:
        """The verdict that an undecided claim leans to; empty where to none."""
        return str(self.row["leaning"]) if self.verdict == "not decided" else ""

    @property
    def mark(self) -> str:
        return MARKS[self.verdict]

    @property
    def look(self) -> str:
        """Classes of the page's style sheet."""
        return self.verdict.replace(" ", "-") + (f" leans-{self.leaning.replace(' ', '-')}" if self.leaning else "")

    @property
    def seeds(self) -> str:
        """At what scale, and with how many seeds."""
        if self.row["scale"] == "formula":
            return "formula"
        return f"{self.row['scale']}, {self.row['seeds']} seed{'' if self.row['seeds'] == 1 else 's'}"

    @property
    def told(self) -> str:
        """What decided, and what is missing."""
        return with_power(self.row)

    @property
    def explained(self) -> str:
        return explained(self.row)


@dataclass(frozen=True)
class FigureView:
    """A figure as it is shown: its words beside it, cut off the file that has them too. Lengths are in inches."""

    name: str
    title: str
    caption: str
    is_run: bool
    is_photographs: bool
    """Whether it shows images that must stay as they are in the dark."""
    source: str
    """Path of the SVG from the page."""
    width: float = 0.0
    height: float = 0.0
    head: float = 0.0
    """Title at the top of the file."""
    foot: float = 0.0
    """Caption at its bottom."""
    claims: list[ClaimView] = field(default_factory=list)


@dataclass(frozen=True)
class SectionView:
    """An experiment."""

    name: str
    title: str
    source: str
    folder: str
    """Path of its tables from the page."""
    figures: list[FigureView]
    claims: list[ClaimView]
    """Claims that no figure shows."""
    tables: list[list[list[str]]]
    """Rows of cells; a table of one cell is a sentence."""
    privacy: list[str]
    runs: list[dict[str, Any]]
    """cell: axis values in words; digest; page: path of its page, or empty; is_here: whether its folder lies here."""

    @property
    def anchor(self) -> str:
        return _anchor(self.name)


@dataclass(frozen=True)
class PaperView:
    """A page: a paper with its experiments."""

    paper: Paper
    score: Score
    sections: list[SectionView]

    @property
    def file(self) -> str:
        return file_of_paper(self.paper.key)

    @property
    def claims(self) -> list[ClaimView]:
        """All its claims, in the order of the page."""
        return [
            claim
            for section in self.sections
            for of in (*(figure.claims for figure in section.figures), section.claims)
            for claim in of
        ]

    def with_verdict(self, verdict: str) -> list[ClaimView]:
        return [claim for claim in self.claims if claim.verdict == verdict]

    @property
    def open_because(self) -> str:
        """Why claims are not decided, and how many each: `3 underpowered, 1 no variance known`."""
        counts = Counter(str(claim.row["undecided"]) for claim in self.with_verdict("not decided"))
        return ", ".join(f"{number} {why}" for why, number in counts.most_common())

    @property
    def forest(self) -> list[ClaimView]:
        """Its claims that have an estimate, the highest first."""
        shown = [(claim.estimate.estimate, claim) for claim in self.claims if claim.estimate is not None]
        return [claim for _, claim in sorted(shown, key=lambda one: -one[0])]


def papers_of(root: Path, done: Sequence[Finished], claims: pd.DataFrame, pages: Mapping[str, str]) -> list[PaperView]:
    """Return the papers, themes of our own after all others.

    root: the results folder. claims: the table of all claims. pages: digest of a run -> path, from the folder of the
    papers' pages, of a page that shows it.
    """
    of_paper: dict[str, list[Finished]] = {}
    for item in sorted(done, key=lambda item: place_of(item.experiment.source.paper)):
        of_paper.setdefault(item.experiment.source.paper, []).append(item)
    made = []
    for key, items in of_paper.items():
        own = claims[claims["experiment"].isin([item.experiment.name for item in items])]
        sections = [_section(root, item, own[own["experiment"] == item.experiment.name], pages) for item in items]
        made.append(PaperView(paper_of(key), score_of(own), sections))
    return made


def _section(root: Path, item: Finished, claims: pd.DataFrame, pages: Mapping[str, str]) -> SectionView:
    experiment = item.experiment
    folder = "../" + item.folder.relative_to(root).as_posix()
    sheets = {figure.name for figure in experiment.all_figures if figure.kind == "sheet"}
    rows = read_csv(item.folder / CAPTIONS).to_dict("records")
    figures = [_figure(item.folder, folder, row, row["name"] in sheets) for row in rows]
    by_name = {figure.name: figure for figure in figures}
    described = {(claim.says, claim.title): claim for claim in experiment.claims}
    others: list[ClaimView] = []
    for number, row in enumerate(rows_of(claims)):
        view = ClaimView(row, f"{_anchor(experiment.name)}-{number}", standard(row))
        claim = described.get((row["claim"], row["check"]))
        shown = None if claim is None else figure_of(claim, experiment.all_figures)
        (others if shown is None or shown not in by_name else by_name[shown].claims).append(view)
    cells = read_csv(item.folder / "cells.csv")
    axes = list(experiment.grid(item.scale))
    runs = [
        {
            "cell": describe({axis: row[axis] for axis in axes}) or "the only cell",
            "digest": row["run"],
            "page": pages.get(row["run"], ""),
            "is_here": (root / "runs" / row["run"] / "scenario.yaml").is_file(),
        }
        for row in cells.to_dict("records")
    ]
    texts = [item.folder / f"{table.name}.md" for table in experiment.tables]
    tables = [table_cells(path.read_text(encoding="utf-8")) for path in texts if path.is_file()]
    source, privacy = str(experiment.source), privacy_sentences(cells)
    return SectionView(experiment.name, experiment.title, source, folder, figures, others, tables, privacy, runs)


def _figure(place: Path, folder: str, row: Mapping[Hashable, Any], is_photographs: bool) -> FigureView:
    name, title, caption = str(row["name"]), str(row["title"]), str(row["caption"])
    width, height = size_of(place / f"{name}.svg")
    head, foot = around(width, title, caption)[2:] if row["style"] == "page" and width else (0.0, 0.0)
    source = f"{folder}/{name}.svg"
    return FigureView(name, title, caption, bool(row["is_run"]), is_photographs, source, width, height, head, foot)


def size_of(svg: Path) -> tuple[float, float]:
    """Return width and height of an SVG file in inches, as its first lines say; (0, 0) where it is not there."""
    if not svg.is_file():
        return 0.0, 0.0
    with svg.open(encoding="utf-8") as file:
        start = file.read(2000)
    found = [re.search(rf'\b{side}="([\d.]+)pt"', start) for side in ("width", "height")]
    width, height = (0.0 if one is None else float(one[1]) / 72 for one in found)
    return width, height


def figure_of(claim: Claim, figures: Sequence[Figure]) -> str | None:
    """Name the figure that shows what a claim is about; None where no figure does.

    It shows the claim's column or bound, at values that both speak of, and if there is one, the axis that the claim
    runs along.
    """
    fitting = [figure for figure in figures if _shows(figure, claim)]
    along = getattr(claim, "along", None)
    named = [figure for figure in fitting if along in [axis for _, axis in figure.axes_named]]
    return next((figure.name for figure in (*named, *fitting)), None)


def _shows(figure: Figure, claim: Claim) -> bool:
    if claim.bound or figure.bound_named:
        return claim.bound == figure.bound_named
    if claim.column not in [column for _, _, column in figure.columns_named]:
        return False
    shared = set(figure.where) & set(claim.where)
    return all(
        set(map(str, several(figure.where[axis]))) & set(map(str, several(claim.where[axis]))) for axis in shared
    )


def table_cells(markdown: str) -> list[list[str]]:
    """Return the rows of a Markdown table, its sentences as rows of one cell."""
    lines = [line for line in markdown.splitlines() if line and not line.startswith("|-")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name)
