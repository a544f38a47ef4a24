"""The report over all experiments at the best scale on disk: claims.csv, claims.md and the pages of the site."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

import pandas as pd

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.cell_settings import CellSettings
from asyncfl.experiments.csv_files import read_csv, write_csv
from asyncfl.experiments.grid import describe
from asyncfl.experiments.scores import ALIKE, NOUNS, as_printed, scores_in_words, scores_of
from asyncfl.experiments.site.contents import (
    CLIP,
    HEADINGS,
    MARKS,
    Row,
    anchors_of,
    explained,
    file_of_paper,
    groups_of,
    papers_of,
    rows_of,
    with_power,
)
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import FinishedExperiment, all_claims, finished, left_out, with_new_axes
from asyncfl.extras.view import Window, page
from asyncfl.results.storage import Run

SCALE_WARNING = "At quick scale, which lowers what it simulates, verdicts tell which way to look: no evidence."
HOW_FIGURES_ARE_READ = (
    "Where lines of a figure lie on each other, their colours take turns, dash by dash, and their markers stand side "
    "by side. Around means of two seeds stand these seeds' own values, around those of more the 95 % "
    "interval; an arrow at a logarithmic axis says that it reaches further down."
)
PAPERS = "papers"
"""Folder of the papers' pages, below the results."""
ROOM_BYTES = 40_000_000
"""Most bytes of all pages of runs together: each contains the program that draws it."""


def page_files(experiments: Mapping[str, Experiment]) -> list[str]:
    """Return paths below the results of all files that `write_site` writes."""
    keys = dict.fromkeys(experiment.source.paper for experiment in experiments.values())
    return ["index.html", *(f"{PAPERS}/{file_of_paper(key)}" for key in keys)]


def write_site(
    root: Path,
    done: Sequence[FinishedExperiment],
    experiments: Mapping[str, Experiment],
    claims: pd.DataFrame,
    pages: Mapping[str, str],
    not_run: Mapping[str, str] | None = None,
    without_data: Mapping[str, str] | None = None,
) -> None:
    """Write the front page and a page per paper; a paper of which nothing has been run has a page that says so.

    pages: digest of a run -> path, from the folder of the papers' pages, of a page that shows it. not_run,
    without_data: as for `all_claims`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("asyncfl.experiments.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = files("asyncfl.experiments.site") / "templates"
    papers = papers_of(root, done, claims, pages)
    templates.globals |= {
        "papers": papers,
        "headings": HEADINGS,
        "nouns": NOUNS,
        "alike": ALIKE,
        "marks": MARKS,
        "clip": CLIP,
        "quick": SCALE_WARNING if len(claims) and (claims["scale"] == "quick").any() else "",
        "style": (texts / "site.css").read_text(encoding="utf-8"),
        "script": (texts / "site.js").read_text(encoding="utf-8"),
        "reading": HOW_FIGURES_ARE_READ,
    }
    (root / PAPERS).mkdir(parents=True, exist_ok=True)
    scores = scores_of(claims)
    front = templates.get_template("front.html.j2").render(
        scores=scores,
        as_printed=scores | as_printed(claims),
        groups={author: groups_of(papers, claims, author) for author in scores},
        wrong={author: wrong_verdicts(claims[claims["of"] == author]) for author in scores},
        left_out=left_out(done, experiments, not_run, without_data),
    )
    write_text(front, root / "index.html")
    made = {f"{PAPERS}/{paper['file']}": paper for paper in papers}
    for name in dict.fromkeys((*made, *page_files(experiments)[1:])):
        write_text(templates.get_template("paper.html.j2").render(view=made.get(name)), root / name)


def claims_page(claims: pd.DataFrame, done: Sequence[FinishedExperiment] = ()) -> str:
    """Return claims.md: for each author a summary and a line per claim with its measured values, and our settings."""
    lines = ["# Claims", ""]
    if len(claims) == 0:
        return "\n".join([*lines, "No experiment has been run.", ""])
    lines += ["A claim that does not hold stays here. Those of papers, of others and of ours are counted apart.", ""]
    if (claims["scale"] == "quick").any():
        lines += [SCALE_WARNING, ""]
    anchored = claims.assign(anchor=anchors_of(claims))
    for author, told in scores_in_words(claims).items():
        own = anchored[anchored["of"] == author]
        lines += [f"## {HEADINGS[author]}", "", f"{told} {wrong_verdicts(own)}", ""]
        lines += ["| experiment | claim | verdict | scale, seeds | measured | why |", "|---|---|---|---|---|---|"]
        lines += [*map(_line, rows_of(own)), ""]
    settings = {item.experiment.name: CellSettings(item.experiment).in_words({}, item.scale) for item in done}
    ours = [f"- `{name}`: {text}" for name, text in settings.items() if text]
    if ours:
        lines += ["Settings that are not the papers':", "", *map(_without_html, ours), ""]
    return "\n".join(lines)


def _line(row: Row) -> str:
    """Return a claim as a line of a Markdown table; of papers and others with the place where it is printed."""
    verdict = in_words(row).replace("does not hold", "**does not hold**", row["verdict"] == "does not hold")
    seeds = row["scale"] if row["scale"] == "formula" else f"{row['scale']}, {row['seeds']}"
    # at most 400 characters; claims.csv has all
    measured = textwrap.shorten(str(row["measured"]), 400, placeholder=" …")
    why = ". ".join(text for text in (with_power(row), explained(row)) if text)
    anchor = f'<a id="{row["anchor"]}"></a>'
    name = f"`{row['experiment']}`" + ("" if row["of"] == "ours" else f" ({row['source']})")
    return (
        "| " + anchor + " | ".join(_cell(text) for text in (name, row["claim"], verdict, seeds, measured, why)) + " |"
    )


def _cell(text: object) -> str:
    return " ".join(_without_html(str(text)).split()).replace("|", "/")


def _without_html(text: str) -> str:
    """Escape HTML tags, which Markdown would pass on: titles and claims come from files of others."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)


def write_report(
    results: str | Path,
    experiments: Mapping[str, Experiment],
    not_run: Mapping[str, str] | None = None,
    without_data: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Write claims.csv, claims.md, index.html and pages of papers and runs into `results`; return the table of claims.

    not_run: experiments without results, and why; None: those that quick scale runs on request only, and those that
    `without_data` names, are called so.
    """
    root = Path(results)
    done = finished(root, experiments)
    claims = write_claims(root, done, experiments, not_run, without_data)
    write_site(root, done, experiments, claims, write_run_pages(root, done), not_run, without_data)
    return claims


def write_claims(
    root: Path,
    done: Sequence[FinishedExperiment],
    experiments: Mapping[str, Experiment],
    not_run: Mapping[str, str] | None = None,
    without_data: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Write claims.csv and claims.md into `root`, and return the table of all claims. Arguments: see `write_site`."""
    claims = all_claims(done, experiments, not_run, without_data)
    write_csv(claims, root / "claims.csv")
    write_text(claims_page(claims, done), root / "claims.md")
    return claims


def write_run_pages(root: Path, done: Sequence[FinishedExperiment], room_bytes: int = ROOM_BYTES) -> dict[str, str]:
    """Write a page for the first cell of each experiment, then for the second, and so on, while there is room.

    root: the results folder. Returns digest of a run -> path of its page, from the papers' pages. A run that cannot be
    shown, as its data are gone for instance, has none.
    """
    folder = root / PAPERS / "runs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages: dict[str, str] = {}
    taken = 0
    names: dict[str, str] = {}
    for cells in zip_longest(*map(_cells, done)):
        for digest, name in (cell for cell in cells if cell is not None):
            names.setdefault(digest, name)
    for digest, name in names.items():
        place = root / "runs" / digest
        if not place.is_dir():
            continue
        try:
            run = Run.load(place)
            text = page(run, name, window=Window(seed=run.scenario.seeds[0]))
        except AsyncflError as error:
            print(f"{digest}: {error}")
            continue
        taken += len(text.encode())
        if taken > room_bytes:
            break
        write_text(text, folder / f"{digest}.html")
        pages[digest] = f"runs/{digest}.html"
    return pages


def _cells(item: FinishedExperiment) -> list[tuple[str, str]]:
    """Return (digest, name) of each run of an experiment."""
    axes, found = list(item.experiment.grid(item.scale)), []
    for row in with_new_axes(item.experiment, read_csv(item.folder / "cells.csv")).to_dict("records"):
        cell = describe({axis: row[axis] for axis in axes})
        found.append((str(row["run"]), f"{item.experiment.name}: {cell}" if cell else item.experiment.name))
    return found


def wrong_verdicts(claims: pd.DataFrame) -> str:
    """Return in one sentence how many of the verdicts may be wrong."""
    decided = claims[claims["verdict"].isin(["holds", "does not hold", "alike"]) & claims["p"].notna()]
    without_chance = claims["kind"] == "deterministic"
    within = without_chance & claims["check"].str.startswith("agrees: ")
    without = f" {exact} are without randomness." if (exact := int((without_chance & ~within).sum())) else ""
    without += (
        f" {near} compare with the deviation that others state, not at a level." if (near := within.sum()) else ""
    )
    if len(decided) == 0:
        return f"No verdict rests on chance.{without}"
    false = float((decided["q"] * len(decided)).max())
    few = "fewer than 0.1" if false < 0.1 else f"at most {false:.1f}"
    return f"Of {len(decided)} verdicts that rest on chance, {few} can be expected to be wrong.{without}"


def in_words(row: Row) -> str:
    """Return a verdict in words, with the way that an undecided one leans, or the settings that it depends on."""
    if row["verdict"] == "depends":
        return f"depends on {row['depends_on']}"
    leaning = row["leaning"] if row["verdict"] == "not decided" else ""
    return str(row["verdict"]) + (f" (leans to: {leaning})" if leaning else "")
