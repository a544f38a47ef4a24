"""Verdicts in words, and how many of each there are."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from asyncfl.base.quantities import number

Row = Mapping[Hashable, Any]
"""A row of the table of claims: the columns of `asyncfl.experiments.verdicts.ClaimVerdict`, and `q`."""
SCALE_WARNING = "At quick scale, which lowers what it simulates, verdicts tell which way to look: no evidence."
HOW_FIGURES_ARE_READ = (
    "Where lines of a figure lie on each other, their colours take turns, dash by dash, and their markers stand side "
    "by side. Around means of two seeds stand these seeds' own values, around those of more the 95 % "
    "interval, which may reach beyond the picture."
)


@dataclass(frozen=True)
class Score:
    """Counts of a table of claims; those about parts that are not run at this scale are in `not_run` alone."""

    holds: int
    fails: int
    undecided: int
    leans_to_holds: int
    """Of those that are not decided."""
    leans_to_fails: int
    not_run: int

    @property
    def in_words(self) -> str:
        """The score in a sentence without its full stop."""
        text = (
            f"{self.holds + self.fails + self.undecided} claims: {self.holds} hold, {self.fails} do not hold, "
            f"{self.undecided} are not decided ({self.leans_to_holds} lean to holding, {self.leans_to_fails} to not "
            "holding)"
        )
        return f"{text}; {self.not_run} more are about parts not run at this scale" if self.not_run else text


def score_of(claims: pd.DataFrame) -> Score:
    """Count the verdicts of a table of claims with columns `verdict` and `leaning`."""
    if not len(claims):
        return Score(0, 0, 0, 0, 0, 0)
    counts = claims["verdict"].value_counts()
    leaning = claims["leaning"][claims["verdict"] == "not decided"].value_counts()
    holds, fails, undecided, not_run = (
        int(counts.get(v, 0)) for v in ("holds", "does not hold", "not decided", "not run")
    )
    return Score(holds, fails, undecided, int(leaning.get("holds", 0)), int(leaning.get("does not hold", 0)), not_run)


def wrong_verdicts(claims: pd.DataFrame) -> str:
    """Return in one sentence how many of the verdicts may be wrong."""
    decided = claims[claims["verdict"].isin(["holds", "does not hold"]) & claims["p"].notna()]
    exact = int((claims["kind"] == "deterministic").sum())
    without = f" {exact} are without randomness." if exact else ""
    if len(decided) == 0:
        return f"No verdict rests on chance.{without}"
    false = float((decided["q"] * len(decided)).max())
    few = "fewer than 0.1" if false < 0.1 else f"at most {false:.1f}"
    return f"Of {len(decided)} verdicts that rest on chance, {few} can be expected to be wrong.{without}"


def in_words(row: Row) -> str:
    """Return a verdict in words, with the way that an undecided one leans."""
    leaning = row["leaning"] if row["verdict"] == "not decided" else ""
    return str(row["verdict"]) + (f" (leans to: {leaning})" if leaning else "")


def with_power(row: Row) -> str:
    """Return what decided; of an undecided claim why it is open, what these seeds can see, and what it would take."""
    margin = f" (margin: {row['margin_why']})" if row["margin_why"] else ""
    if row["verdict"] != "not decided" or row["undecided"] in ("missing", "stand-in data", "remade data"):
        return f"{row['reason']}{margin}"
    parts = [f"{row['reason']}{margin}; {row['undecided']}"]
    if row["visible"] != "":
        parts.append(f"{row['seeds']} seeds see {number(row['visible'])} beyond the threshold in four cases of five")
    if row["seeds_needed"] != "":
        parts.append(f"an answer would take about {row['seeds_needed']:.0f} seeds")
    elif row["undecided"] in ("underpowered", "bounded by its margin"):
        parts.append("no number of seeds in reach would answer it")
    return ", ".join(parts)


def explained(row: Row) -> str:
    """Return what was expected of a claim, and our explanation; empty where there is neither."""
    if row["expected"] == "fails":
        return "Expected to fail" + (f": {row['why']}" if row["why"] else "")
    return str(row["why"])


def rows_of(claims: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table of claims; an empty text where there is no value."""
    return claims.astype(object).where(claims.notna(), "").to_dict("records")
