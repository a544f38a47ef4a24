"""The report over all experiments at the best scale that is on disk: claims.csv, claims.md and the site."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from asyncfl.base.files.atomic import write_text
from asyncfl.experiments.finished import Finished, all_claims, finished
from asyncfl.experiments.run_tables import write_csv
from asyncfl.experiments.site.runs import FOLDER as RUNS
from asyncfl.experiments.site.runs import run_pages
from asyncfl.experiments.site.write import FOLDER, write_site
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.wording import (
    SCALE_WARNING,
    Score,
    explained,
    in_words,
    rows_of,
    score_of,
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


def _cell(text: object) -> str:
    return " ".join(_without_html(str(text)).split()).replace("|", "/")


def _without_html(text: str) -> str:
    """Escape HTML tags, which Markdown would pass on: titles and claims come from files of others."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", text)


def _cut(text: str, most: int = 400) -> str:
    """At most `most` characters; the whole stands in claims.csv."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def write_report(results: str | Path, experiments: Mapping[str, Experiment]) -> Score:
    """The score of all; writes claims.csv, claims.md, index.html and a page per paper into `results`."""
    root = Path(results)
    done = finished(root, experiments)
    claims = all_claims(done, experiments)
    write_csv(claims, root / "claims.csv")
    write_text(claims_page(claims, done), root / "claims.md")
    write_site(root, done, experiments, claims, run_pages(root / FOLDER / RUNS))
    return score_of(claims)
