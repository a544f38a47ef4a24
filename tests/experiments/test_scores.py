"""Counts of verdicts, and the verdict of a sentence from those of its checks."""

from math import nan

import pandas as pd
import pytest

from asyncfl.experiments.scores import Score, score_of, scores_in_words, sentence_verdict


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
    score = score_of(pd.DataFrame([(*row, "") for row in rows], columns=["verdict", "leaning", "undecided"]))
    assert score == Score(3, 1, 4, 2, 1, 1)
    said = "8 claims: 3 hold, 1 do not hold, 4 are not decided (2 lean to holding, 1 to not holding)"
    assert score.in_words("claims") == f"{said}; 1 more are not run"
    assert Score(3, 1, 4, 2, 1, 0).in_words("claims") == said
    assert Score(0, 0, 0, 0, 0, 2).in_words("claims") == "2 claims, none of which is run"
    assert score_of(pd.DataFrame(columns=["verdict"])) == Score(0, 0, 0, 0, 0, 0)


def test_what_makes_no_difference_is_counted_apart() -> None:
    rows = [("alike", ""), ("alike", ""), ("holds", ""), ("in part", ""), ("not decided", "")]
    score = score_of(pd.DataFrame([(*row, "") for row in rows], columns=["verdict", "leaning", "undecided"]))
    assert (score.alike, score.total) == (2, 5)
    assert score.in_words("sentences of papers") == (
        "5 sentences of papers: 1 hold, 0 do not hold, 1 hold in part, 2 make no difference that matters, "
        "1 are not decided (0 lean to holding, 0 to not holding)"
    )


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ("", "not run"),
        ("holds, holds", "holds"),
        ("alike, alike", "alike"),
        ("holds, alike", "in part"),
        ("holds, alike, not decided", "in part"),
        ("holds, does not hold", "in part"),
        ("depends, alike", "in part"),
        ("does not hold, alike", "does not hold"),
        ("does not hold, alike, not decided", "does not hold"),
        ("does not hold, not decided", "does not hold"),
        ("alike, not decided", "not decided"),
        ("holds, not decided", "not decided"),
    ],
)
def test_a_sentence_holds_where_its_checks_do(checks: str, verdict: str) -> None:
    each = checks.split(", ") if checks else []
    assert sentence_verdict(each, [0.001] * len(each)) == verdict


@pytest.mark.parametrize(("p", "verdict"), [(0.0125, "does not hold"), (0.013, "not decided"), (nan, "does not hold")])
def test_one_of_several_checks_must_fail_surely_to_fail_a_sentence(p: float, verdict: str) -> None:
    """Of two checks one may fail by chance at twice the level; without randomness none does."""
    assert sentence_verdict(["does not hold", "not decided"], [p, 0.3]) == verdict
    assert sentence_verdict(["does not hold", "does not hold"], [p, p]) == "does not hold"


def test_sentences_that_are_judged_otherwise_than_printed_alone_are_told_apart() -> None:
    columns = ["of", "paper", "sentence", "source", "verdict", "leaning", "undecided", "against", "depends_on", "p"]
    rows = [
        ("paper", "safl", "4.2", "SAFL", "holds", "", "", "", "", 0.001),
        ("paper", "safl", "4.2", "SAFL", "does not hold", "", "", "E = 20 (printed: 1)", "", 0.001),
        ("paper", "safl", "4.3", "SAFL", "does not hold", "", "", "E = 20 (printed: 1)", "", 0.001),
        ("ours", "", "", "", "holds", "", "", "", "", 0.001),
    ]
    claims = pd.DataFrame(rows, columns=columns)
    open_ones = "0 are not decided (0 lean to holding, 0 to not holding)"
    assert scores_in_words(claims) == {
        "paper": f"1 sentences of papers (2 checks): 1 hold, 0 do not hold, {open_ones}. "
        f"1 sentences judged otherwise than printed alone (1 checks): 0 hold, 1 do not hold, {open_ones}.",
        "ours": f"1 statements of ours: 1 hold, 0 do not hold, {open_ones}.",
    }
    assert scores_in_words(claims[claims["of"] == "ours"]).keys() == {"ours"}
    assert scores_in_words(claims[claims["sentence"] == "4.3"]) == {
        "paper": f"1 sentences judged otherwise than printed alone (1 checks): 0 hold, 1 do not hold, {open_ones}."
    }


def test_sentences_that_are_open_for_want_of_the_original_data_alone_are_told_apart() -> None:
    """No run here can decide them, with any number of seeds."""
    columns = ["of", "paper", "sentence", "source", "verdict", "leaning", "undecided", "against", "depends_on", "p"]
    rows = [
        ("paper", "adaptive", "table 3", "", "not decided", "", "remade data", "", "", nan),
        ("paper", "adaptive", "table 3", "", "not decided", "", "remade data", "", "", nan),
        ("paper", "adaptive", "3.3", "", "holds", "", "", "", "", 0.001),
        ("paper", "adaptive", "3.3", "", "not decided", "", "remade data", "", "", nan),
        ("paper", "adaptive", "3.4", "", "not decided", "", "remade data", "", "", nan),
        ("paper", "adaptive", "3.4", "", "not decided", "holds", "underpowered", "", "", 0.2),
    ]
    assert scores_in_words(pd.DataFrame(rows, columns=columns)) == {
        "paper": "3 sentences of papers (6 checks): 0 hold, 0 do not hold, 3 are not decided "
        "(0 lean to holding, 0 to not holding; 2 for want of the original data)."
    }


def test_sentences_that_are_open_after_all_planned_seeds_are_told_apart() -> None:
    """Further looks at them would make errors likelier than the level."""
    columns = [
        "of",
        "paper",
        "sentence",
        "source",
        "verdict",
        "leaning",
        "undecided",
        "spent",
        "against",
        "depends_on",
        "p",
    ]
    rows = [
        ("paper", "safl", "spent", "", "not decided", "", "underpowered", True, "", "", 0.2),
        ("paper", "safl", "spent", "", "holds", "", "", False, "", "", 0.01),
        ("paper", "safl", "open", "", "not decided", "", "underpowered", True, "", "", 0.2),
        ("paper", "safl", "open", "", "not decided", "", "missing", False, "", "", nan),
    ]
    assert scores_in_words(pd.DataFrame(rows, columns=columns)) == {
        "paper": "2 sentences of papers (4 checks): 0 hold, 0 do not hold, 2 are not decided "
        "(0 lean to holding, 0 to not holding; 1 after all planned seeds)."
    }
