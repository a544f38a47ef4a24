"""The report over all experiments at the best scale that is on disk: claims.csv, claims.md, index.md, and the site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.figure_files import CAPTIONS
from asyncfl.experiments.finished import Finished, all_claims, finished, left_out
from asyncfl.experiments.run_tables import read_csv, write_csv
from asyncfl.experiments.score import Score, score_of
from asyncfl.experiments.site import write_site
from asyncfl.experiments.site.runs import FOLDER as RUNS
from asyncfl.experiments.site.runs import run_pages
from asyncfl.experiments.site.write import FOLDER
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.wording import (
    HOW_FIGURES_ARE_READ,
    SCALE_WARNING,
    explained,
    in_words,
    privacy_sentences,
    rows_of,
    with_power,
    wrong_verdicts,
)


def claims_page(claims: pd.DataFrame, done: Sequence[Finished] = ()) -> str:
    """claims.md: a summary, one line per claim that says what was measured, and the settings of ours."""
    lines = ["# Claims", ""]
    if len(claims) == 0:
        return "\n".join([*lines, "No experiment has been run.", ""])
    lines += [f"{score_of(claims).in_words}. {wrong_verdicts(claims)} A claim that does not hold stays here.", ""]
    if (claims["scale"] == "quick").any():
        lines += [SCALE_WARNING, ""]
    lines += [
        "| experiment | claim | verdict | scale, seeds | measured | why |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows_of(claims):
        verdict = in_words(row).replace("does not hold", "**does not hold**", row["verdict"] == "does not hold")
        seeds = row["scale"] if row["scale"] == "formula" else f"{row['scale']}, {row['seeds']}"
        measured = _cut(str(row["measured"]))
        why = ". ".join(text for text in (with_power(row), explained(row)) if text)
        cells = [f"`{row['experiment']}` ({row['source']})", row["claim"], verdict, seeds, measured, why]
        lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
    ours = [f"- `{item.experiment.name}`: {'; '.join(item.experiment.ours)}" for item in done if item.experiment.ours]
    if ours:
        lines += ["", "Settings of ours, where the sources are silent:", "", *map(_without_html, ours)]
    return "\n".join([*lines, ""])


def index_page(results: str | Path, done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> str:
    """index.md: contents, then every figure with its caption, tables and verdicts."""
    root = Path(results)
    lines = ["# Results", "", "To look at: [index.html](index.html). ", ""]
    lines[-2] += (
        f"All verdicts in one table: [claims](claims.md). Runs: [index](runs/index.csv). {HOW_FIGURES_ARE_READ}"
    )
    lines += [line for sentence in left_out(done, experiments) for line in (sentence, "")]
    titles = [_without_html(f"{item.experiment.name}: {item.experiment.title}") for item in done]
    lines += [*(f"- [{title}](#{_anchor(title)})" for title in titles), ""]
    for item, title in zip(done, titles, strict=True):
        here = os.path.relpath(item.folder, root)
        lines += [f"## {title}", ""]
        for figure in read_csv(item.folder / CAPTIONS).to_dict("records"):
            if figure["is_run"]:
                shown, caption = _without_html(figure["title"]), _without_html(figure["caption"])
                lines += [f"![{shown}]({here}/{figure['name']}.svg)", "", f"*{caption}*", ""]
            else:
                lines += [f"{_without_html(figure['title'])}: not run at this scale.", ""]
        for table in item.experiment.tables:
            page = item.folder / f"{table.name}.md"
            lines += [page.read_text(encoding="utf-8")] if page.is_file() else []
        for row in rows_of(read_csv(item.folder / "claims.csv")):
            lines.append(f"- {_without_html(row['claim'])}: {in_words(row)}. {with_power(row)}.")
        lines += ["", *_privacy(read_csv(item.folder / "cells.csv"))]
        lines += [f"Values: [final]({here}/final.csv), [curves]({here}/curves.csv), [cells]({here}/cells.csv)", ""]
    return "\n".join(lines)


def _anchor(title: str) -> str:
    """What a heading is called in links, as forges and pandoc have it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _privacy(cells: pd.DataFrame) -> list[str]:
    sentences = privacy_sentences(cells)
    if not sentences:
        return []
    about = "What each adversary learns, in the first cell (the others: cells):"
    return [about, "", *(f"- {sentence}" for sentence in sentences), ""]


def _cell(text: object) -> str:
    return " ".join(_without_html(str(text)).split()).replace("|", "/")


def _without_html(text: str) -> str:
    """Escape HTML tags, which Markdown would pass on: titles and claims come from files of others."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)


def _cut(text: str, most: int = 400) -> str:
    """At most `most` characters; the whole stands in claims.csv."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def write_report(results: str | Path, experiments: Mapping[str, Experiment]) -> Score:
    """The score of all; writes claims.csv, claims.md, index.md, index.html and a page per paper into `results`."""
    root = Path(results)
    done = finished(root, experiments)
    claims = all_claims(done, experiments)
    write_csv(claims, root / "claims.csv")
    write_text(claims_page(claims, done), root / "claims.md")
    write_text(index_page(root, done, experiments), root / "index.md")
    write_site(root, done, experiments, claims, run_pages(root / FOLDER / RUNS))
    return score_of(claims)
