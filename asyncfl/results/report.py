"""The report over all experiments: claims.csv, claims.md and index.md, at the best scale that is on disk."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from asyncfl.analysis.evidence.discoveries import q_values
from asyncfl.analysis.tables import read_csv, write_csv
from asyncfl.experiment import SCALES, Experiment, Scale
from asyncfl.files.whole import write_text
from asyncfl.quantities import number

MARKS = {"holds": "holds", "does not hold": "**does not hold**", "not decided": "not decided"}


@dataclass(frozen=True)
class Finished:
    """An experiment's outputs at the best scale there is."""

    experiment: Experiment
    scale: Scale
    folder: Path


def best_scale(results: str | Path, name: str) -> Scale | None:
    """The highest scale at which an experiment's verdicts are on disk; None: it has not been run."""
    done = [scale for scale in SCALES if (Path(results) / scale / name / "claims.csv").is_file()]
    return done[-1] if done else None


def finished(results: str | Path, experiments: Mapping[str, Experiment]) -> list[Finished]:
    """What is there to report, in the order of the experiments."""
    found = []
    for name, experiment in experiments.items():
        scale = best_scale(results, name)
        if scale is not None:
            found.append(Finished(experiment, scale, Path(results) / scale / name))
    return found


def all_claims(done: list[Finished]) -> pd.DataFrame:
    """The verdicts of all experiments, one row each; `q` is the q-value of `p` among all of them."""
    frames = [frame for item in done if len(frame := read_csv(item.folder / "claims.csv"))]
    if not frames:
        return pd.DataFrame(columns=["experiment", "verdict"])
    claims = pd.concat(frames, ignore_index=True)
    claims.insert(list(claims).index("p") + 1, "q", q_values(claims["p"]))
    return claims


def claims_page(claims: pd.DataFrame) -> str:
    """claims.md: a summary, then one section per claim that says what was measured."""
    lines = ["# Claims", ""]
    if len(claims) == 0:
        return "\n".join([*lines, "No experiment has been run.", ""])
    counts = claims["verdict"].value_counts()
    said = ", ".join(f"{counts.get(name, 0)} {name}" for name in MARKS)
    lines += [f"{len(claims)} claims: {said}. {wrong_verdicts(claims)} A claim that does not hold stays here.", ""]
    if (claims["scale"] == "quick").any():
        lines += ["At quick scale, which lowers what it simulates, verdicts tell which way to look: no evidence.", ""]
    lines += [
        "| experiment | claim | verdict | scale, seeds | measured | why |",
        "|---|---|---|---|---|---|",
    ]
    for row in _rows(claims):
        verdict = in_words(row)
        seeds = row["scale"] if row["scale"] == "formula" else f"{row['scale']}, {row['seeds']}"
        measured = _cut(str(row["measured"]))
        why = with_power(row)
        if row["expected"] == "fails":
            why += ". Expected to fail: " + row["why"] if row["why"] else ". Expected to fail"
        elif row["why"]:
            why += f". {row['why']}"
        cells = [f"`{row['experiment']}` ({row['source']})", row["claim"], verdict, seeds, measured, why]
        lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
    return "\n".join([*lines, ""])


def index_page(results: str | Path, done: list[Finished], experiments: Mapping[str, Experiment]) -> str:
    """index.md: every figure with its caption, tables and verdicts."""
    root = Path(results)
    lines = ["# Results", "", "All verdicts in one table: [claims](claims.md). Runs: [index](runs/index.csv).", ""]
    missing = [name for name in experiments if name not in {item.experiment.name for item in done}]
    if missing:
        lines += [f"Not run yet: {', '.join(missing)}.", ""]
    for item in done:
        here = os.path.relpath(item.folder, root)
        lines += [f"## {item.experiment.name}: {item.experiment.title}", ""]
        captions = item.folder / "caption.txt"
        text = captions.read_text(encoding="utf-8").strip() if captions.is_file() else ""
        for figure in item.experiment.all_figures:
            lines += [f"![{figure.title or item.experiment.title}]({here}/{figure.name}.svg)", ""]
        lines += [f"*{text}*", ""] if text else []
        for table in item.experiment.tables:
            page = item.folder / f"{table.name}.md"
            lines += [page.read_text(encoding="utf-8")] if page.is_file() else []
        claims = read_csv(item.folder / "claims.csv")
        for row in _rows(claims):
            lines.append(f"- {row['claim']}: {in_words(row)}. {with_power(row)}.")
        lines += ["", *_privacy(item.folder / "cells.csv")]
        lines += [f"Values: [final]({here}/final.csv), [curves]({here}/curves.csv), [cells]({here}/cells.csv)", ""]
    return "\n".join(lines)


def wrong_verdicts(claims: pd.DataFrame) -> str:
    """How many of the verdicts may be wrong, in one sentence."""
    decided = claims[(claims["verdict"] != "not decided") & claims["p"].notna()]
    exact = int((claims["kind"] == "deterministic").sum())
    without = f" {exact} are without randomness." if exact else ""
    if len(decided) == 0:
        return f"No verdict rests on chance.{without}"
    false = float((decided["q"] * len(decided)).max())
    few = "fewer than 0.1" if false < 0.1 else f"at most {false:.1f}"
    return f"Of {len(decided)} verdicts that rest on chance, {few} can be expected to be wrong.{without}"


def in_words(row: Mapping[Hashable, Any]) -> str:
    """A verdict in words, with the way that an undecided one leans."""
    leaning = row["leaning"] if row["verdict"] == "not decided" else ""
    return MARKS[row["verdict"]] + (f" (leans to: {leaning})" if leaning else "")


def with_power(row: Mapping[Hashable, Any]) -> str:
    """What decided; of an undecided claim why it is not decided, what could have been seen, what it would take."""
    margin = f" (margin: {row['margin_why']})" if row["margin_why"] else ""
    if row["verdict"] != "not decided" or row["undecided"] in ("", "missing", "stand-in data"):
        return f"{row['reason']}{margin}"
    said = [f"{row['reason']}{margin}; {row['undecided']}"]
    if row["visible"] != "":
        said.append(f"{row['seeds']} seeds see {number(row['visible'])} beyond the threshold in four cases of five")
    if row["seeds_needed"] != "":
        said.append(f"an answer would take about {row['seeds_needed']:.0f} seeds")
    elif row["undecided"] in ("underpowered", "bounded by its margin"):
        said.append("no number of seeds in reach would answer it")
    return ", ".join(said)


def _privacy(cells: Path) -> list[str]:
    """What each adversary learns in the first of the cells, in a sentence each."""
    frame = read_csv(cells) if cells.is_file() else pd.DataFrame()
    said = str(frame["privacy"].iloc[0]) if len(frame) and "privacy" in frame else ""
    sentences = [sentence for sentence in said.split(" | ") if sentence and sentence != "nan"]
    if not sentences:
        return []
    return [
        "What each adversary learns, in the first cell (the others: cells):",
        "",
        *(f"- {s}" for s in sentences),
        "",
    ]


def _rows(claims: pd.DataFrame) -> list[dict[Hashable, Any]]:
    return claims.astype(object).where(claims.notna(), "").to_dict("records")


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "/")


def _cut(text: str, most: int = 400) -> str:
    """At most `most` characters; the whole stands in claims.csv."""
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def write_report(results: str | Path, experiments: Mapping[str, Experiment]) -> None:
    """Writes claims.csv, claims.md and index.md into the results folder."""
    root = Path(results)
    done = finished(root, experiments)
    claims = all_claims(done)
    write_csv(claims, root / "claims.csv")
    write_text(claims_page(claims), root / "claims.md")
    write_text(index_page(root, done, experiments), root / "index.md")
