"""Verdicts in words, and how many of each there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from asyncfl.base.quantities import number


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
        said = (
            f"{self.holds + self.fails + self.undecided} claims: {self.holds} hold, {self.fails} do not hold, "
            f"{self.undecided} are not decided ({self.leans_to_holds} lean to holding, {self.leans_to_fails} to not "
            "holding)"
        )
        return f"{said}; {self.not_run} more are about parts not run at this scale" if self.not_run else said


def score_of(claims: pd.DataFrame) -> Score:
    """Count the verdicts of a table of claims with columns `verdict` and `leaning`."""
    counts = Counter(claims["verdict"])
    leaning = Counter(claims["leaning"][claims["verdict"] == "not decided"]) if len(claims) else Counter()
    return Score(
        counts["holds"],
        counts["does not hold"],
        counts["not decided"],
        leaning["holds"],
        leaning["does not hold"],
        counts["not run"],
    )


Row = dict[Hashable, Any]
"""A row of the table of claims: the columns of `asyncfl.experiments.verdicts.ClaimVerdict`, and `q`."""
SCALE_WARNING = "At quick scale, which lowers what it simulates, verdicts tell which way to look: no evidence."

HOW_FIGURES_ARE_READ = (
    "Where lines of a figure lie on each other, their colours take turns, dash by dash, and their markers stand side "
    "by side. Around means of two seeds stand these seeds' own values, around those of more the 95 % "
    "interval, which may reach beyond the picture."
)


def wrong_verdicts(claims: pd.DataFrame) -> str:
    """How many of the verdicts may be wrong, in one sentence."""
    decided = claims[claims["verdict"].isin(["holds", "does not hold"]) & claims["p"].notna()]
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
    return str(row["verdict"]) + (f" (leans to: {leaning})" if leaning else "")


def with_power(row: Mapping[Hashable, Any]) -> str:
    """What decided; of an undecided claim why it is not decided, what could have been seen, what it would take."""
    margin = f" (margin: {row['margin_why']})" if row["margin_why"] else ""
    if row["verdict"] != "not decided" or row["undecided"] in ("missing", "stand-in data", "remade data"):
        return f"{row['reason']}{margin}"
    said = [f"{row['reason']}{margin}; {row['undecided']}"]
    if row["visible"] != "":
        said.append(f"{row['seeds']} seeds see {number(row['visible'])} beyond the threshold in four cases of five")
    if row["seeds_needed"] != "":
        said.append(f"an answer would take about {row['seeds_needed']:.0f} seeds")
    elif row["undecided"] in ("underpowered", "bounded by its margin"):
        said.append("no number of seeds in reach would answer it")
    return ", ".join(said)


def rows_of(claims: pd.DataFrame) -> list[Row]:
    """Rows of a table of claims; an empty text where there is no value."""
    return claims.astype(object).where(claims.notna(), "").to_dict("records")


def privacy_sentences(cells: pd.DataFrame) -> list[str]:
    """What each adversary learns in the first of the cells, in a sentence each."""
    said = str(cells["privacy"].iloc[0]) if len(cells) and "privacy" in cells else ""
    return [sentence for sentence in said.split(" | ") if sentence and sentence != "nan"]


def explained(row: Mapping[Hashable, Any]) -> str:
    """What was expected of a claim, and our explanation; empty where nothing is said."""
    if row["expected"] == "fails":
        return "Expected to fail" + (f": {row['why']}" if row["why"] else "")
    return str(row["why"])
