from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from asyncfl.errors import ScenarioError
from tests.fuzz.campaign import campaign
from tests.fuzz.judging import Finding, bounded_memory, judge
from tests.fuzz.mutations import mutate
from tests.fuzz.subjects import Case


def test_what_the_program_says_itself_is_a_refusal() -> None:
    def refuse() -> None:
        raise ScenarioError("no")

    assert judge(refuse) == "refused"
    assert judge(lambda: 3) == "accepted"


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(0), RecursionError(), ScenarioError("x " * 50_000)])
def test_anything_else_is_a_finding(error: BaseException) -> None:
    def fail() -> None:
        raise error

    assert isinstance(judge(fail), Finding)


def test_memory_is_bounded_and_given_free_again() -> None:
    with bounded_memory():
        found = judge(lambda: np.empty(10**11))
    assert isinstance(found, Finding)
    assert "allocate" in found.what


def test_nonsense_that_is_accepted_is_a_finding_told_once(tmp_path: Path) -> None:
    def subject(rng: random.Random, folder: Path) -> Case:
        return Case("lr = 'x'", lambda: None, True, "text")

    report = campaign(subject, 5, 0, tmp_path)
    assert report.outcomes == {"found": 5}
    assert len(report.findings) == 1


def test_a_mutant_is_another_text_and_the_same_for_the_same_seed() -> None:
    tree = {"a": {"b": 1, "c": [2.5, "x"]}, "d": True}
    made = [mutate(tree, random.Random(seed)) for seed in range(200)]
    assert made == [mutate(tree, random.Random(seed)) for seed in range(200)]
    assert tree == {"a": {"b": 1, "c": [2.5, "x"]}, "d": True}
    assert len({mutant.text for mutant in made}) > 100
    assert 20 < sum(mutant.nonsense for mutant in made) < 80
