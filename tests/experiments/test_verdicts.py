"""Undecided claims: reason, leaning, seeds that an answer would take; and verdicts in words."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pydantic import TypeAdapter

from asyncfl.experiments.claims import Claim
from asyncfl.experiments.csv_files import read_csv, write_csv
from asyncfl.experiments.evidence.open_comparison import leaning, needed, why_undecided
from asyncfl.experiments.evidence.p_values import Reading
from asyncfl.experiments.evidence.power import clean_runs_needed, seeds_needed, seeds_needed_alike, visible
from asyncfl.experiments.loading import load
from asyncfl.experiments.report import wrong_verdicts
from asyncfl.experiments.site.contents import with_power
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import asked, make_verdicts


def decided(test: Any = "student", seeds: int = 5, effect: float = 0.5, t: float = 0.0, **of: Any) -> Any:
    comparison = SimpleNamespace(room=of.get("room"), tolerated=0.1, smallest=of.get("smallest"))
    reading = Reading(test, seeds, 0.5, 0.5, effect, -1.0, 1.0, 1.0, t)
    return SimpleNamespace(reading=reading, comparison=comparison, is_futile=of.get("is_futile", False), alpha=0.025)


@pytest.mark.parametrize(
    ("test", "t", "told"),
    [
        ("student", 0.99, ""),
        ("student", 1.0, "holds"),
        ("student", -0.99, ""),
        ("student", -1.0, "does not hold"),
        ("signs", 0.0, ""),
        ("signs", 0.01, "holds"),
        ("none", -0.01, "does not hold"),
        ("runs", math.inf, "holds"),
    ],
)
def test_numbers_lean_to_an_answer_from_a_standard_error_on(test: str, t: float, told: str) -> None:
    assert leaning(decided(test, t=t)) == told


def test_why_a_claim_is_open() -> None:
    assert why_undecided(decided("none", is_futile=True)) == "no variance known"
    assert why_undecided(decided(is_futile=True, room=0.0)) == "given up"
    seen = visible(1.0, 5, 0.025)
    assert why_undecided(decided(room=seen * 0.999)) == "bounded by its margin"
    assert why_undecided(decided(room=seen * 1.001)) == "underpowered"
    assert why_undecided(decided("signs", room=0.0)) == why_undecided(decided()) == "underpowered"


def test_seeds_that_an_answer_would_take() -> None:
    assert needed(decided(effect=0.5)) == seeds_needed(0.5, 1.0, 0.025) == 34
    # As many would have been enough, if the effect were what it seems: one more at least.
    assert needed(decided(effect=0.5, seeds=40)) == 41
    assert math.isnan(needed(decided(effect=1e-3)))
    assert needed(decided("runs", effect=0.0)) == clean_runs_needed(0.1, 0.025) == 36
    assert math.isnan(needed(decided("runs", effect=0.1)))
    # an answer may also be that the effect does not matter
    assert needed(decided(effect=0.1, smallest=0.6)) == seeds_needed_alike(0.1, 1.0, 0.6, 0.025)
    assert needed(decided(effect=0.5, smallest=0.51)) == seeds_needed(0.5, 1.0, 0.025)
    assert [needed(decided("signs", seeds=seeds)) for seeds in (5, 2)] == [6, 6]
    assert math.isnan(needed(decided("signs", seeds=7)))


ONE_POINT = {"kind": "statistical", "smallest": 0.01, "smallest_why": "one point"}


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
    return pd.DataFrame(rows, columns=["verdict", "p", "q", "kind"]).assign(check="order: final train_loss")


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
    others = claims(sure).assign(check="agrees: final test_accuracy")
    assert wrong_verdicts(others).endswith(" 1 compare with the deviation that others state, not at a level.")
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
        (
            {"verdict": "alike", "low": -0.004, "high": 0.009, "threshold": 0.0, **ONE_POINT},
            "off by 1; the difference is less than 0.01 (one point)",
        ),
        (
            {"verdict": "does not hold", "low": 0.495, "high": 0.499, "threshold": 0.5, **ONE_POINT},
            "off by 1; that is 0.5 to within 0.01 (one point)",
        ),
        ({"verdict": "holds", "low": 0.001, "high": 0.011, "threshold": 0.0, **ONE_POINT}, "off by 1"),
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


def test_a_claim_is_a_papers_only_where_that_prints_it() -> None:
    order = {"check": "order", "along": "privacy.epsilon", "says": "the loss falls"}
    claims = [{**order, "printed": "fig. 2"}, {**order, "paper": "safl", "printed": "equation 4"}, order]
    made = {"title": "Loss", "scenario": {}, "claims": claims}
    of_paper = Experiment.model_validate({**made, "source": {"paper": "nbafl", "figure": 3}})
    assert [of_paper.author(claim) for claim in of_paper.claims] == ["paper", "paper", "ours"]
    sources = ["NbAFL, fig. 2", "SAFL, equation 4", "NbAFL, fig. 3"]
    assert [str(of_paper.source_of(claim)) for claim in of_paper.claims] == sources
    of_others = Experiment.model_validate({**made, "source": {"paper": "outside", "figure": "Opacus"}})
    assert [of_others.author(claim) for claim in of_others.claims] == ["others"] * 3


def test_what_a_claim_asks_is_told_apart_from_its_words() -> None:
    def digest(**fields: Any) -> str:
        given = {"check": "at_least", "says": "it learns", "value": "mean test_accuracy", "threshold": 0.5}
        claim: Claim = TypeAdapter(Claim).validate_python({**given, **fields})
        return asked(claim)

    assert digest(says="it learns well", why="as expected", printed="section 4") == digest()
    changed = [digest(threshold=0.6), digest(where={"x": 1}), digest(value="final test_accuracy"), digest(goal="low")]
    assert len({digest(), *changed}) == 5


def test_a_published_verdict_on_rounds_is_that_of_what_the_claim_asked(tmp_path: Path) -> None:
    text = """
title: small
source: {paper: outside, figure: one}
scenario: {data: {dataset: digits, clients: 4, samples_per_client: 20}, protocol: {kind: sync, rounds: 3}}
seeds: {quick: 2, full: 2}
claims: [{check: at_least, value: mean train_loss, threshold: %s, goal: low, says: the loss is small}]
"""
    ends = {"seed": [0, 1], "round": 3, "diverged": False, "train_loss": 2.0}
    for name, table in (("ends", ends), ("cells", {"original": [True], "source": ["real"]}), ("bounds", {})):
        write_csv(pd.DataFrame(table), tmp_path / f"{name}.csv")
    (tmp_path / "a").mkdir()
    verdicts = []
    for threshold in (3, 3, 0.001):
        file = tmp_path / "a" / "small.yaml"
        file.write_text(text % threshold)
        experiment = load(file, "a/small")
        if not verdicts:
            curves = [
                {"seed": seed, "round": number, "train_loss": 2.0 + 0.01 * seed}
                for seed in (0, 1)
                for number in (1, 2, 3)
            ]
            write_csv(pd.DataFrame(curves), tmp_path / "rounds.csv")
        make_verdicts(experiment, "full", tmp_path)
        (tmp_path / "rounds.csv").unlink(missing_ok=True)
        verdicts.append(read_csv(tmp_path / "claims.csv").iloc[0])
    assert [one["threshold"] for one in verdicts[:2]] == [3, 3]
    assert verdicts[0]["verdict"] == verdicts[1]["verdict"] == "holds"
    assert verdicts[2]["reason"] == "its values over the rounds are not published"
