"""Undecided claims: reason, leaning, and seeds that an answer would take."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.experiments.evidence.p_values import Reading, clean_runs_needed, seeds_needed, visible
from asyncfl.experiments.verdicts import leaning, needed, why_undecided


def decided(test: Any = "student", seeds: int = 5, effect: float = 0.5, t: float = 0.0, **of: Any) -> Any:
    comparison = SimpleNamespace(room=of.get("room"), tolerated=0.1)
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
    assert [needed(decided("signs", seeds=seeds)) for seeds in (5, 2)] == [6, 6]
    assert math.isnan(needed(decided("signs", seeds=7)))
