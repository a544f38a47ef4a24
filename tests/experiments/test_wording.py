"""Verdicts in words, and scores."""

from typing import Any

import pandas as pd
import pytest

from asyncfl.experiments.report import wrong_verdicts
from asyncfl.experiments.site.contents import with_power
from asyncfl.experiments.verdicts import Score, score_of


def row(**fields: Any) -> dict[Any, Any]:
    plain = {
        "verdict": "not decided",
        "leaning": "holds",
        "undecided": "underpowered",
        "reason": "off by 1",
        "seeds": 5,
    }
    return {**plain, "margin_why": "", "visible": "", "seeds_needed": "", "expected": "holds", "why": "", **fields}


def claims(*rows: tuple[str, float | None, float | None, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["verdict", "p", "q", "kind"])


def test_the_expected_number_of_wrong_verdicts_is_stated() -> None:
    sure = ("holds", None, None, "deterministic")
    assert wrong_verdicts(claims()) == "No verdict rests on chance."
    assert wrong_verdicts(claims(sure, sure)) == "No verdict rests on chance. 2 are without randomness."
    chance = [("holds", 0.01, 0.04, "statistical"), ("does not hold", 0.02, 0.07, "count")]
    open_ = ("not decided", 0.4, 0.9, "statistical")
    # Of two with q-values of at most .07, .14 can be expected.
    said = "Of 2 verdicts that rest on chance, at most 0.1 can be expected to be wrong."
    assert wrong_verdicts(claims(*chance, open_)) == said
    assert wrong_verdicts(claims(*chance, open_, sure)) == f"{said} 1 are without randomness."
    few = wrong_verdicts(claims(("holds", 0.01, 0.04, "statistical"), ("holds", 0.01, 0.0499, "statistical")))
    assert few == "Of 2 verdicts that rest on chance, fewer than 0.1 can be expected to be wrong."
    just = wrong_verdicts(claims(("holds", 0.01, 0.05, "statistical"), ("holds", 0.01, 0.05, "statistical")))
    assert just == "Of 2 verdicts that rest on chance, at most 0.1 can be expected to be wrong."
    many = wrong_verdicts(claims(*[("holds", 0.01, 0.3, "statistical")] * 4))
    assert many == "Of 4 verdicts that rest on chance, at most 1.2 can be expected to be wrong."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verdict": "holds"}, "off by 1"),
        ({"verdict": "holds", "margin_why": "a tenth"}, "off by 1 (margin: a tenth)"),
        ({"undecided": "missing"}, "off by 1"),
        ({"undecided": "stand-in data", "margin_why": "a tenth"}, "off by 1 (margin: a tenth)"),
        ({}, "off by 1; underpowered, no number of seeds in reach would answer it"),
        (
            {"undecided": "bounded by its margin"},
            "off by 1; bounded by its margin, no number of seeds in reach would answer it",
        ),
        ({"undecided": "no variance known"}, "off by 1; no variance known"),
        (
            {"visible": 0.25, "seeds_needed": 11.6, "undecided": "given up"},
            "off by 1; given up, 5 seeds see 0.25 beyond the threshold in four cases of five, an answer would take "
            "about 12 seeds",
        ),
        ({"visible": 0.25}, "off by 1; underpowered, 5 seeds see 0.25 beyond the threshold in four cases of five, no "
         "number of seeds in reach would answer it"),
    ],
)  # fmt: skip
def test_an_open_verdict_states_its_reason_and_the_seeds_needed(fields: dict[str, Any], said: str) -> None:
    assert with_power(row(**fields)) == said


def test_scores_count_verdicts_and_which_way_the_open_ones_lean() -> None:
    open_ = [("not decided", lean) for lean in ("holds", "", "does not hold", "holds")]
    rows = [
        ("holds", "does not hold"),
        ("holds", ""),
        ("holds", ""),
        ("does not hold", "holds"),
        *open_,
        ("not run", ""),
    ]
    score = score_of(pd.DataFrame(rows, columns=["verdict", "leaning"]))
    assert score == Score(3, 1, 4, 2, 1, 1)
    said = "8 claims: 3 hold, 1 do not hold, 4 are not decided (2 lean to holding, 1 to not holding)"
    assert score.in_words == f"{said}; 1 more are about parts not run at this scale"
    assert Score(3, 1, 4, 2, 1, 0).in_words == said
    assert score_of(pd.DataFrame(columns=["verdict"])) == Score(0, 0, 0, 0, 0, 0)
