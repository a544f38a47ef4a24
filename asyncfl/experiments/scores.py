"""Scores: how many sentences of papers, and how many claims of others and of ours, hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from asyncfl.experiments.evidence.decision import ALPHA
from asyncfl.experiments.spec import AUTHORS, Author

NOUNS: dict[Author, str] = {
    "paper": "sentences of papers",
    "others": "numbers of others",
    "ours": "statements of ours",
}
"""Author -> what its claims are called where they are counted."""
ALIKE = "make no difference that matters"
"""What is said of claims that are `alike`, where they are counted."""
REMADE, STAND_IN = "remade data", "stand-in data"
WITHOUT_DATA = (REMADE, STAND_IN)
"""Why a number of a paper is left open by each run here: the paper's own data are not at hand."""


def sentences_of(claims: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sentence of a paper: its paper, place, verdict, and the number of its checks.

    It holds where all of its checks do, is `alike` where all of them are, and holds `in part` where some hold and some
    do not. It does not hold where some fail and none holds; if others are open, a failing one must be sure at the level
    for any of n checks, and what is open is whether it holds in part. Checks that are not run do not count.
    Where a check is judged as printed, those that are judged against the print do not count either; else `otherwise` is
    true.
    """
    rows = []
    of_papers = claims[claims["of"] == "paper"]
    told = ["paper", "sentence", "source", "verdict", "leaning", "undecided", "spent", "against", "depends_on"]
    texts_of = (
        of_papers.reindex(columns=told)
        .astype(object)
        .fillna("")
        .assign(p=pd.to_numeric(of_papers["p"], errors="coerce"))
    )
    for (paper, sentence), checks in texts_of.groupby(["paper", "sentence"], sort=False):
        run = checks[checks["verdict"] != "not run"]
        printed = run[run["against"] == ""]
        counted = printed if len(printed) else run
        rows.append(
            {
                "paper": paper,
                "sentence": sentence,
                "source": checks["source"].iloc[0],
                "verdict": sentence_verdict(list(counted["verdict"]), list(counted["p"])),
                "leaning": _sentence_leaning(counted),
                "undecided": _sentence_undecided(counted),
                "spent": bool(counted["spent"][counted["verdict"] == "not decided"].eq(True).all()),
                "depends_on": ", ".join(dict.fromkeys(of for of in counted["depends_on"] if of)),
                "otherwise": len(run) > 0 and len(printed) == 0,
                "checks": len(checks),
            }
        )
    columns = ["paper", "sentence", "source", "verdict", "leaning", "undecided", "spent"]
    return pd.DataFrame(rows, columns=[*columns, "depends_on", "otherwise", "checks"])


def sentence_verdict(checks: Sequence[str], p: Sequence[float]) -> str:
    """Return the verdict of a sentence from those of its checks. p: p-values of these; NaN: without randomness."""
    if not checks:
        return "not run"
    found = set(checks)
    if "depends" in found or ("holds" in found and found & {"does not hold", "alike"}):
        return "in part"
    fails = [value for verdict, value in zip(checks, p, strict=True) if verdict == "does not hold"]
    if any(math.isnan(value) or value * len(checks) <= ALPHA for value in fails):
        return "does not hold"
    ordered = ("not decided", "does not hold", "alike", "holds")
    return next(verdict for verdict in ordered if verdict in found)


def _sentence_leaning(checks: pd.DataFrame) -> str:
    """Return the answer that all checks of an undecided sentence give or lean to; empty where they differ."""
    open_ones = checks["verdict"] == "not decided"
    found = set(checks["leaning"][open_ones]) | set(checks["verdict"][~open_ones])
    return found.pop() if open_ones.any() and len(found) == 1 else ""


def _sentence_undecided(checks: pd.DataFrame) -> str:
    """Return why a sentence is open if all of its open checks are for this one reason; else empty."""
    reasons = set(checks["undecided"][checks["verdict"] == "not decided"])
    return reasons.pop() if len(reasons) == 1 else ""


@dataclass(frozen=True)
class Score:
    """Counts of verdicts; those that are not run are in `not_run` alone."""

    holds: int
    fails: int
    undecided: int
    leans_to_holds: int
    """Verdicts that are not decided and lean to `holds`."""
    leans_to_fails: int
    not_run: int
    in_part: int = 0
    """Sentences of which some checks hold and some do not; claims that depend on a setting."""
    checks: int = 0
    """Checks of the sentences; 0 where claims are counted."""
    alike: int = 0
    """Those that compare what differs by less than matters."""
    without_data: int = 0
    """Verdicts that are not decided and that no run here can decide: the paper's own data are not at hand."""
    spent: int = 0
    """Verdicts that are not decided after all seeds that were planned."""

    @property
    def total(self) -> int:
        return self.holds + self.fails + self.in_part + self.alike + self.undecided + self.not_run

    def in_words(self, noun: str) -> str:
        """Return the score in a sentence without its full stop; `noun`: what is counted, in the plural."""
        judged = self.total - self.not_run
        checks = f" ({self.checks} checks)" if self.checks else ""
        if not judged:
            return f"{self.not_run} {noun}{checks}, none of which is run"
        in_part = f"{self.in_part} hold in part, " if self.in_part else ""
        in_part += f"{self.alike} {ALIKE}, " if self.alike else ""
        no_data = f"; {self.without_data} for want of the original data" if self.without_data else ""
        no_data += f"; {self.spent} after all planned seeds" if self.spent else ""
        text = (
            f"{judged} {noun}{checks}: {self.holds} hold, {self.fails} do not hold, {in_part}"
            f"{self.undecided} are not decided "
            f"({self.leans_to_holds} lean to holding, {self.leans_to_fails} to not holding{no_data})"
        )
        return f"{text}; {self.not_run} more are not run" if self.not_run else text


Scores = dict[Author, Score]
"""Author -> score of its claims, of papers that of their sentences; authors without claims are left out. Scores of two
authors are never added."""


def score_of(found: pd.DataFrame) -> Score:
    """Count the verdicts of a table of claims or of sentences, with columns `verdict`, `leaning` and `undecided`."""
    if not len(found):
        return Score(0, 0, 0, 0, 0, 0)
    counts = found["verdict"].value_counts()
    is_open = found["verdict"] == "not decided"
    leaning = found["leaning"][is_open].value_counts()
    without_data = int(found["undecided"][is_open].isin(WITHOUT_DATA).sum())
    spent = int(found["spent"][is_open].eq(True).sum()) if "spent" in found else 0
    names = ("holds", "does not hold", "not decided", "not run", "in part", "depends", "alike")
    holds, fails, undecided, not_run, in_part, depends, alike = (int(counts.get(name, 0)) for name in names)
    for_it, against_it = (int(leaning.get(answer, 0)) for answer in ("holds", "does not hold"))
    checks = int(found["checks"].sum()) if "checks" in found else 0
    return Score(
        holds, fails, undecided, for_it, against_it, not_run, in_part + depends, checks, alike, without_data, spent
    )


def scores_of(claims: pd.DataFrame) -> Scores:
    """Count, author by author: of papers their sentences, of all others their claims."""
    of = {author: claims[claims["of"] == author] for author in AUTHORS}
    return {
        author: score_of(sentences_of(rows) if author == "paper" else rows) for author, rows in of.items() if len(rows)
    }


def as_printed(claims: pd.DataFrame) -> Scores:
    """Count the sentences of papers of which some check is judged as printed; nothing where there are none."""
    sentences = sentences_of(claims)
    printed = sentences[~sentences["otherwise"].astype(bool)]
    return {"paper": score_of(printed)} if len(sentences) else {}


def scores_in_words(claims: pd.DataFrame) -> dict[Author, str]:
    """Return the scores of each author in words; sentences of papers that are judged otherwise than printed alone,
    where there are some, in words of their own."""
    told = {author: f"{score.in_words(NOUNS[author])}." for author, score in scores_of(claims).items()}
    if "paper" in told:
        sentences = sentences_of(claims)
        otherwise = sentences["otherwise"].astype(bool)
        parts = ((NOUNS["paper"], ~otherwise), ("sentences judged otherwise than printed alone", otherwise))
        told["paper"] = " ".join(f"{score_of(sentences[of]).in_words(noun)}." for noun, of in parts if of.any())
    return told
