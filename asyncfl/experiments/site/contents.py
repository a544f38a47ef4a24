"""The contents of the pages of results: papers, their experiments, figures, claims and runs, as the templates read
them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Container, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from asyncfl.base.quantities import number
from asyncfl.experiments.analysis import CAPTIONS
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.grid import describe, several
from asyncfl.experiments.scores import WITHOUT_DATA, score_of, scores_of, sentences_of
from asyncfl.experiments.spec import AUTHORS, Author
from asyncfl.experiments.verdicts import FinishedExperiment, with_new_axes
from asyncfl.results.figure_style import around

View = dict[str, Any]
Row = Mapping[Hashable, Any]
"""A row of the table of claims: the columns of `asyncfl.experiments.verdicts.ClaimVerdict`, and `q`."""
MARKS = {
    "holds": "✓",
    "does not hold": "✗",
    "depends": "±",
    "in part": "±",
    "alike": "≈",
    "not decided": "?",
    "not run": "–",
}
"""Verdict -> a letter for it, so that colour is not needed to tell them apart."""
PROVENANCE = "provenance.json"
"""File of a published experiment that says what made it."""
VALUES = (
    ("at the end", "final.csv"),
    ("at the end", "final.csv.gz"),
    ("over rounds", "curves.csv"),
    ("over rounds", "curves.csv.gz"),
    ("of each seed over rounds", "rounds.csv.gz"),
    ("cells", "cells.csv"),
    ("cells", "cells.csv.gz"),
)
"""What a table of an experiment has, and its file; published results have the packed rounds in place of the curves."""
HEADINGS: dict[Author, str] = {
    "paper": "What papers say",
    "others": "What others measured",
    "ours": "What we say of our own designs and checks",
}
"""Author -> title of the part with its claims."""
CLIP = 10.0
"""Distance from the threshold at which pictures of estimates end; values beyond it are drawn there."""


class Paper(NamedTuple):
    """A paper, or a theme of our own."""

    key: str
    """Value of an experiment's `source.paper`."""
    name: str
    about: str = ""
    """Authors and title, or the question, in one line."""
    link: str = ""


_KNOWN = (
    Paper(
        "nbafl",
        "NbAFL",
        "Wei et al., Federated Learning with Differential Privacy: Algorithms and Performance Analysis (2020)",
        "https://arxiv.org/abs/1911.00222",
    ),
    Paper(
        "safl",
        "SAFL",
        "Wei et al., A Secure Gradient Aggregation Scheme Based on Local Differential Privacy in Asynchronous "
        "Horizontal Federated Learning (2024)",
    ),
    Paper(
        "adaptive",
        "adaptive DP",
        "Xu, Tong, Dai, Research on Federated Learning Adaptive Differential Privacy Method Based on Heterogeneous "
        "Data (2025)",
    ),
    Paper("mechanisms", "mechanisms", "A teaching text on Gaussian and Laplace noise at the clients and at the server"),
    Paper(
        "dp_fedavg",
        "DP-FedAvg",
        "A teaching text on the algorithm of McMahan et al., Learning Differentially Private Recurrent Language Models",
        "https://arxiv.org/abs/1710.06963",
    ),
    Paper(
        "FedPAQ",
        "FedPAQ",
        "Reisizadeh et al., FedPAQ: A Communication-Efficient Federated Learning Method (2020)",
        "https://arxiv.org/abs/1909.13014",
    ),
    Paper("outside", "others", "Numbers that other libraries and papers report, at their settings"),
    Paper("live", "live", "Our own: simulations beside live federations of the same scenario"),
    Paper("defence", "defences", "Our own: which defence holds against which attack, and where none can"),
    Paper("ledger", "ledger", "Our own: what the noise of several papers is worth in one accounting"),
    Paper("audit", "audit", "Our own: what an attacker finds out, beside what is proven"),
)
_PLACES = {paper.key: 2 * place for place, paper in enumerate(_KNOWN)}


def file_of_paper(key: str) -> str:
    """Return the file name of a paper's page: letters, digits, `-` and `_`."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in key) + ".html"


def name_of_paper(key: str) -> str:
    """Return what a paper is called; its key where it has no other name."""
    return next((paper.name for paper in _KNOWN if paper.key == key), key)


class StandardEstimate(NamedTuple):
    """An estimate and its interval, clipped to -10..10; above 0 the claim is true."""

    estimate: float
    low: float
    high: float
    unit: str
    """Meaning of 1: `margin`, `sd`, `tolerated share`; empty for values without spread."""


def standard(row: Row) -> StandardEstimate | None:
    """Put the estimate of a claim on a scale that all claims share.

    Its distance from the threshold, above 0 where it speaks for the claim, is divided by the margin that the claim
    grants, else by the standard deviation between seeds (of counts: by the share of runs that may break the claim).
    None where nothing was compared, or its spread is not known. row: of the table of claims.
    """
    names = ("effect", "low", "high", "threshold", "direction", "margin", "sd")
    effect, low, high, threshold, direction, margin, sd = (
        math.nan if row[name] in ("", None) else float(row[name]) for name in names
    )
    sizes = {"tolerated share": threshold} if row["kind"] == "count" else {"margin": margin, "sd": sd}
    unit = next((unit for unit, size in sizes.items() if size > 0), "")
    if math.isnan(direction * effect) or not (unit or row["kind"] == "deterministic"):
        return None
    distances = direction * (np.array([effect, low, high]) - threshold)
    distances = np.nan_to_num(distances, posinf=np.inf, neginf=-np.inf)
    scaled = distances / sizes[unit] if unit else np.where(distances == 0, 0.0, np.copysign(np.inf, distances))
    estimate, *ends = np.clip(scaled, -CLIP, CLIP).tolist()
    return StandardEstimate(estimate, min(ends), max(ends), unit)


def papers_of(
    root: Path, done: Sequence[FinishedExperiment], claims: pd.DataFrame, pages: Mapping[str, str]
) -> list[View]:
    """Return the papers, themes of our own after all others.

    root: the results folder. claims: the table of all claims. pages: digest of a run -> path, from the folder of the
    papers' pages, of a page that shows it.
    """
    of_paper: dict[str, list[FinishedExperiment]] = {}
    for item in done:
        of_paper.setdefault(item.experiment.source.paper, []).append(item)
    made = []
    for key in sorted(of_paper, key=_place):
        names = [item.experiment.name for item in of_paper[key]]
        own = claims[claims["experiment"].isin(names)]
        sections = [
            _section(root, item, own[own["experiment"] == item.experiment.name], pages) for item in of_paper[key]
        ]
        places = [part for section in sections for part in (*section["figures"], section)]
        shown: list[View] = [claim for place in places for claim in place["claims"]]
        for claim in shown:
            claim.update(page=key, file=file_of_paper(key))
        shown.sort(key=lambda claim: AUTHORS.index(claim["row"]["of"]))
        made.append(
            {
                "paper": _paper(key),
                "file": file_of_paper(key),
                "scores": scores_of(own),
                "sections": sections,
                "claims": shown,
            }
        )
    return made


def groups_of(papers: Sequence[View], claims: pd.DataFrame, author: Author) -> list[View]:
    """Return the claims of an author in groups: by the paper that prints them and whether they are judged as printed,
    by other source, of ours by subject.

    papers: as `papers_of` returns them. claims: the table of all claims; those without results count as not run.
    """
    found = claims[claims["of"] == author]
    sentences = sentences_of(found)
    otherwise = {(row["paper"], row["sentence"]) for row in rows_of(sentences[sentences["otherwise"].astype(bool)])}
    rows: dict[Paper, list[Row]] = {}
    for row in rows_of(found):
        rows.setdefault(_group_of(row, otherwise), []).append(row)
    made = []
    for group in sorted(rows, key=lambda group: _place(group.key)) if author == "paper" else rows:
        shown = [claim for paper in papers for claim in paper["claims"] if claim["row"]["of"] == author]
        open_because = Counter(row["undecided"] for row in rows[group] if row["verdict"] == "not decided")
        table = pd.DataFrame(rows[group])
        made.append(
            {
                "paper": group,
                "anchor": anchor_of(group.name),
                "score": score_of(sentences_of(table) if author == "paper" else table),
                "claims": [claim for claim in shown if _group_of(claim["row"], otherwise) == group],
                "open_because": ", ".join(f"{number} {why}" for why, number in open_because.most_common()),
            }
        )
    return made


def _group_of(row: Row, otherwise: Container[tuple[str, str]]) -> Paper:
    """Return the group of a claim. otherwise: (paper, sentence) that are judged against the print alone."""
    if row["of"] != "paper":
        name = str(row["source"] if row["of"] == "others" else row["experiment"].partition("/")[0])
        return Paper(name, name)
    paper = _paper(str(row["paper"]))
    if (row["paper"], row["sentence"]) not in otherwise:
        return paper
    about = "Sentences of the same paper, judged with settings that it prints otherwise"
    return paper._replace(name=f"{paper.name}, otherwise than printed", about=about)


def _paper(key: str) -> Paper:
    return next((paper for paper in _KNOWN if paper.key == key), Paper(key, key))


def _place(key: str) -> int:
    """Return the place of a paper: themes of our own after all others."""
    return _PLACES.get(key, _PLACES["ledger"] - 1)


def _section(root: Path, item: FinishedExperiment, claims: pd.DataFrame, pages: Mapping[str, str]) -> View:
    experiment = item.experiment
    folder = "../" + item.folder.relative_to(root).as_posix()
    sheets = {figure.name for figure in experiment.all_figures if figure.kind == "sheet"}
    captions = read_csv(item.folder / CAPTIONS).to_dict("records")
    figures = {row["name"]: _figure(item.folder, folder, row, row["name"] in sheets) for row in captions}
    described = {(claim.says, claim.title): claim for claim in experiment.claims}
    others: list[View] = []
    for place, row in enumerate(rows_of(claims)):
        claim = described.get((row["claim"], row["check"]))
        shown = None if claim is None else figure_of(claim, experiment.all_figures)
        view = _claim(row, f"{anchor_of(experiment.name)}-{place}")
        (figures[shown]["claims"] if shown in figures else others).append(view)
    texts = [item.folder / f"{table.name}.md" for table in experiment.tables]
    cells, runs = with_new_axes(experiment, read_csv(item.folder / "cells.csv")), []
    for row in cells.to_dict("records"):
        run, at = row["run"], describe({axis: row[axis] for axis in experiment.grid(item.scale)})
        here = (root / "runs" / run / "scenario.yaml").is_file()
        runs.append({"cell": at or "the only cell", "digest": run, "page": pages.get(run, ""), "is_here": here})
    privacy = str(cells["privacy"].iloc[0]) if len(cells) and "privacy" in cells else ""
    return {
        "name": experiment.name,
        "anchor": anchor_of(experiment.name),
        "title": experiment.title,
        "source": str(experiment.source),
        "folder": folder,
        "value_files": [(words, file) for words, file in VALUES if (item.folder / file).is_file()],
        "made_by": made_by(item.folder),
        "figures": list(figures.values()),
        "claims": others,  # that no figure shows
        "tables": [table_cells(path.read_text(encoding="utf-8")) for path in texts if path.is_file()],
        "privacy": [sentence for sentence in privacy.split(" | ") if sentence and sentence != "nan"],
        "runs": runs,
    }


def made_by(folder: Path) -> str:
    """Return in a line which code made published results, when and on which CPU; empty for results in work."""
    file = folder / PROVENANCE
    if not file.is_file():
        return ""
    told = json.loads(file.read_text(encoding="utf-8"))
    cut = f"; {told['cut']}" if told["cut"] else ""
    where = f" on {', '.join(told['cpu'])}" if told["cpu"] else ""
    seeds = f", {told['seeds']} seeds, {told['core_hours']:.2f} core-hours{where}" if told["cells"] else ""
    return f"Computed {told['computed']} by commit {', '.join(told['commits'])}{seeds}{cut}."


def _claim(row: Row, anchor: str) -> View:
    verdict, seeds = str(row["verdict"]), row["seeds"]
    leaning = str(row["leaning"]) if verdict == "not decided" else ""
    return {
        "row": row,
        "is_ours": row["of"] == "ours",
        "anchor": anchor,
        "estimate": standard(row),
        "verdict": verdict,
        "in_words": f"depends on {row['depends_on']}" if verdict == "depends" else verdict,
        "leaning": leaning,
        "mark": MARKS[verdict],
        "look": verdict.replace(" ", "-") + (f" leans-{leaning.replace(' ', '-')}" if leaning else ""),
        "seeds": "formula" if row["scale"] == "formula" else f"{row['scale']}, {seeds} seed{'' if seeds == 1 else 's'}",
        "told": with_power(row),
        "explained": explained(row),
    }


def _figure(place: Path, folder: str, row: Any, is_photographs: bool) -> View:
    """Return a figure, its words beside it, cut off the file that has them too; lengths are in inches."""
    width, height = size_of(place / f"{row['name']}.svg")
    words = around(width, str(row["title"]), str(row["caption"])) if row["style"] == "page" and width else None
    head, foot = words[2:] if words else (0.0, 0.0)
    endings = [ending for ending in ("svg", "pdf", "png") if (place / f"{row['name']}.{ending}").is_file()]
    of = {"source": f"{folder}/{row['name']}.svg", "endings": endings, "is_photographs": is_photographs, "claims": []}
    return {**row, **of, "width": width, "height": height, "head": head, "foot": foot}


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
    shared = set(figure.where) & set(claim.where)
    return claim.column in [column for *_, column in figure.columns_named] and all(
        set(map(str, several(figure.where[axis]))) & set(map(str, several(claim.where[axis]))) for axis in shared
    )


def table_cells(markdown: str) -> list[list[str]]:
    """Return the rows of a Markdown table, its sentences as rows of one cell."""
    lines = [line for line in markdown.splitlines() if line and not line.startswith("|-")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def anchor_of(name: str) -> str:
    """Return the anchor of an experiment's section; that of its claims is followed by `-` and their place, from 0."""
    return re.sub(r"\W+", "-", name)


def anchors_of(claims: pd.DataFrame) -> list[str]:
    """Return the anchor of each row of the table of all claims."""
    places = claims.groupby("experiment").cumcount()
    return [f"{anchor_of(name)}-{place}" for name, place in zip(claims["experiment"], places, strict=True)]


def with_power(row: Row) -> str:
    """Return what decided; of an undecided claim why it is open, what these seeds can see, and what it would take."""
    margin = f" (margin: {row['margin_why']})" if row["margin_why"] else ""
    if row["verdict"] != "not decided":
        return f"{row['reason']}{margin}{size_in_words(row)}"
    if row["undecided"] in ("missing", *WITHOUT_DATA):
        return f"{row['reason']}{margin}"
    parts = [f"{row['reason']}{margin}; {row['undecided']}"]
    if row["visible"] != "":
        parts.append(f"{row['seeds']} seeds see {number(row['visible'])} beyond the threshold in four cases of five")
    if row["seeds_needed"] != "":
        parts.append(f"an answer would take about {row['seeds_needed']:.0f} seeds")
    elif row["undecided"] in ("underpowered", "bounded by its margin"):
        parts.append("no number of seeds in reach would answer it")
    return ", ".join(parts)


def size_in_words(row: Row) -> str:
    """Return a remark where the whole interval of a decided comparison is smaller than what matters, with the reason of
    that size; else nothing."""
    smallest, low, high, threshold = (row.get(name, "") for name in ("smallest", "low", "high", "threshold"))
    is_known = row.get("kind") == "statistical" and "" not in (smallest, low, high, threshold)
    if not is_known or max(threshold - low, high - threshold) >= smallest:
        return ""
    what = "the difference is less than" if threshold == 0 else f"that is {number(threshold)} to within"
    return f"; {what} {number(smallest)} ({row['smallest_why']})"


def explained(row: Row) -> str:
    """Return what was expected of a claim, and our explanation; empty where there is neither."""
    if row["expected"] == "fails":
        return "Expected to fail" + (f": {row['why']}" if row["why"] else "")
    return str(row["why"])


def rows_of(claims: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table of claims; an empty text where there is no value."""
    return claims.astype(object).where(claims.notna(), "").to_dict("records")
