"""How many claims hold, do not, and are not decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pandas as pd


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
    def judged(self) -> int:
        """Claims that the score is of."""
        return self.holds + self.fails + self.undecided

    @property
    def in_words(self) -> str:
        """The score in a sentence without its full stop."""
        said = (
            f"{self.judged} claims: {self.holds} hold, {self.fails} do not hold, {self.undecided} are not decided "
            f"({self.leans_to_holds} lean to holding, {self.leans_to_fails} to not holding)"
        )
        return f"{said}; {self.not_run} more are about parts not run at this scale" if self.not_run else said


def score_of(claims: pd.DataFrame) -> Score:
    """The score of a table of claims. claims: columns `verdict` and `leaning`."""
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
