"""Smallest differences that matter: declared by an experiment for its values, and read by its claims."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from asyncfl.experiments.files import find
from asyncfl.experiments.grid import Grid
from asyncfl.experiments.loading import load
from asyncfl.experiments.site.contents import rows_of, with_power
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import ClaimVerdict, frame, judge

FILES = Path(__file__).resolve().parents[2] / "workflow" / "experiments"
BEST: dict[str, Any] = {"check": "best_at", "value": "final test_accuracy", "along": "x", "at": "a", "says": "best"}
SMALLEST = {
    "test_accuracy": {"difference": 0.01, "why": "one point of accuracy"},
    "test_accuracy_svhn": {"difference": 0.02, "why": "two points"},
    "rounds_to": {"difference": 20, "why": "rounds"},
}
NOISE = np.array([0.002, -0.001, 0.0, 0.001, -0.002, 0.0005])


def experiment(*claims: dict[str, Any], **fields: Any) -> Experiment:
    made = {"title": "t", "source": {"paper": "nbafl", "figure": 2}, "scenario": {}, "claims": claims}
    variants = {"variants": {"x": {"a": {}, "b": {}, "c": {}}}}
    return Experiment.model_validate({**made, **variants, "smallest": SMALLEST, **fields})


def judged(claim: dict[str, Any], column: str = "test_accuracy", **means: float) -> ClaimVerdict:
    """Judge a claim on values of six seeds around these means."""
    rows = [
        {"x": x, "seed": seed, "round": 1, column: mean + one * (i + 1), "diverged": False}
        for i, (x, mean) in enumerate(means.items())
        for seed, one in enumerate(NOISE)
    ]
    table = pd.DataFrame(rows)
    (found,) = judge(experiment(claim), "full", Grid({"x": tuple(means)}, table, table), {})
    return found


def test_a_claim_of_a_direction_is_alike_where_the_difference_is_less_than_matters() -> None:
    found = judged(BEST, a=0.9, b=0.9)
    assert (found.verdict, found.smallest, found.smallest_why) == ("alike", 0.01, "one point of accuracy")
    assert found.p < 0.025
    # a certain difference holds, though it is less than a point
    assert judged(BEST, a=0.905, b=0.9).verdict == "holds"
    assert judged(BEST, a=0.9, b=0.905).verdict == "does not hold"
    # best of three: clearly ahead of one, alike with the other
    assert judged(BEST, a=0.9, b=0.9, c=0.5).verdict == "alike"


@pytest.mark.parametrize(
    ("behind", "verdict"), [((0.05, 0.0), "depends"), ((-0.05, 0.0), "does not hold"), ((0.0, 0.0), "alike")]
)
def test_a_silent_setting_decides_where_a_claim_holds_at_one_value_and_is_alike_at_another(
    behind: tuple[float, float], verdict: str
) -> None:
    of = experiment(
        {**BEST, "printed": "fig. 2"},
        scenario={"protocol": {"kind": "sync", "rounds": 4}},
        axes={"training.epochs": [1, 5]},
        prints={"training.epochs": {"prints": "silent", "name": "E"}},
    )
    rows = [
        {"x": x, "training.epochs": epochs, "seed": seed, "round": 1, "diverged": False, "test_accuracy": mean + noise}
        for epochs, gap in zip((1, 5), behind, strict=True)
        for x, mean, size in (("a", 0.9, 1), ("b", 0.9 - gap, 2))
        for seed, noise in enumerate(size * NOISE)
    ]
    table = pd.DataFrame(rows)
    (found,) = judge(of, "full", Grid({"training.epochs": (1, 5), "x": ("a", "b")}, table, table), {})
    assert (found.verdict, found.depends_on) == (verdict, "E" if verdict == "depends" else "")


def test_the_table_of_claims_says_how_small_a_difference_is() -> None:
    def told(**means: float) -> str:
        (row,) = rows_of(frame([judged(BEST, **means)]))
        return with_power(row)

    assert told(a=0.9, b=0.9).endswith("; the difference is less than 0.01 (one point of accuracy)")
    assert told(a=0.905, b=0.9).endswith("; the difference is less than 0.01 (one point of accuracy)")
    assert "less than" not in told(a=0.95, b=0.9)


def test_a_mean_at_its_threshold_is_alike() -> None:
    reaches = {"check": "at_least", "value": "final test_accuracy", "threshold": 0.9, "says": "reaches 90 %"}
    assert judged(reaches, a=0.9).verdict == "alike"
    assert judged(reaches, a=0.92).verdict == "holds"


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, "alike"),
        ({"direction": -1.0, "effect": -0.002}, "alike"),
        ({"seeds": 3}, "not decided"),
        ({"comparisons": 2}, "not decided"),
        ({"sd": np.nan}, "not decided"),
        ({"verdict": "holds"}, "holds"),
    ],
)
def test_a_published_mean_over_rounds_is_alike_where_its_spread_says_so(fields: dict[str, Any], verdict: str) -> None:
    """The mean of six seeds is .002 with a standard error of .002: t(5) = 4 at the nearer end has p = .005."""
    claim = {**BEST, "value": "mean test_accuracy"}
    of = experiment(claim)
    ends = pd.DataFrame([{"x": x, "seed": s, "round": 5, "diverged": False} for x in ("a", "b") for s in range(6)])
    row = {"verdict": "not decided", "kind": "statistical", "comparisons": 1, "effect": 0.002, "threshold": 0.0}
    row |= {"direction": 1.0, "sd": 0.002 * np.sqrt(6), "seeds": 6, **fields}
    before = {("best", of.claims[0].title): row}
    (found,) = judge(of, "full", Grid({"x": ("a", "b")}, None, ends), {}, before=before)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("claim", "smallest"),
    [
        (BEST, 0.01),
        ({**BEST, "value": "mean test_accuracy_mnist"}, 0.01),
        ({**BEST, "value": "final test_accuracy_svhn"}, 0.02),
        ({**BEST, "value": "final rounds_to_70"}, 20),
        ({**BEST, "value": "final train_loss"}, None),
        ({**BEST, "value": "fluctuation test_accuracy"}, None),
        ({**BEST, "value": "rise test_accuracy"}, None),
        ({**BEST, "log": True}, None),
        ({**BEST, "check": "no_worse", "than": "b", "margin": 0.0}, 0.01),
        ({**BEST, "check": "no_worse", "than": "b", "margin": 0.05}, None),
        ({**BEST, "check": "alike", "than": "b", "margin": 0.02}, None),
        ({"check": "near", "value": "final test_accuracy", "target": 0.9, "tolerance": 0.02, "says": "90 %"}, None),
    ],
)
def test_the_difference_of_a_value_is_that_of_its_column(claim: dict[str, Any], smallest: float | None) -> None:
    found = experiment(claim).claims[0].smallest
    assert (None if found is None else found.difference) == smallest


def test_a_claim_cannot_choose_its_own_and_each_has_a_reason() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        experiment({**BEST, "smallest": 0.05})
    for one, fault in [({"difference": 0.5}, "why"), ({"difference": 0.0, "why": "none"}, "greater than 0")]:
        with pytest.raises(ValidationError, match=fault):
            experiment(BEST, smallest={"test_accuracy": one})


def test_all_experiments_declare_the_same_difference_of_a_value() -> None:
    declared: dict[str, set[tuple[float, str]]] = defaultdict(set)
    for name, path in find(FILES).items():
        for column, of in load(path, name, check=False).smallest.items():
            declared[column].add((of.difference, of.why))
    assert "test_accuracy" in declared
    assert {column: numbers for column, numbers in declared.items() if len(numbers) > 1} == {}
