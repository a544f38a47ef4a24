"""Claims about many cells beside the numbers of others."""

from typing import Any

import pandas as pd
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.experiments.claims import Claim
from asyncfl.experiments.claims.base import PointVerdict
from asyncfl.experiments.experiment_tables import whole_run
from asyncfl.experiments.grid import Grid, NotRunError

THEIRS = {"a": 1.0, "b": 2.0, "c": 4.0}


def grid(of: dict[str, list[list[float]]]) -> Grid:
    """Rounds 1, 2, ... by point and seed: times by the seconds of each round, and one update more in each round."""
    rows = [
        {
            "x": x,
            "seed": seed,
            "round": number,
            "diverged": False,
            "participants": 10.0 + number,
            "time_s": sum(seconds[:number]),
        }
        for x, seeds in of.items()
        for seed, seconds in enumerate(seeds)
        for number in range(1, len(seconds) + 1)
    ]
    rounds = pd.DataFrame(rows)
    return Grid({"x": tuple(of)}, rounds, rounds.groupby(["x", "seed"], sort=False).tail(1))


def judged(claim: dict[str, Any], on: Grid) -> PointVerdict:
    (found,) = TypeAdapter[Any](Claim).validate_python({"says": "so", "along": "x", **claim}).judge(on)
    return found  # type: ignore[no-any-return]


def test_the_seconds_of_a_round_are_counted_between_two_rounds() -> None:
    """The first round takes 50 s, and is left out; the errors are +1 %, -2 % and +10 %."""
    claim = {"check": "predicts", "value": "final time_s", "rounds": [2, 3], "numbers": THEIRS, "median_error": 0.05}
    ours = grid(
        {
            x: [[50.0, by * theirs, by * theirs]] * 6
            for (x, theirs), by in zip(THEIRS.items(), (1.01, 0.98, 1.1), strict=True)
        }
    )
    found = judged(claim, ours)
    assert found.answer == "holds"
    told = "3 points, median error 2.0% of the means of our seeds, 2.0% of a single one, which is judged"
    assert found.measured == f"{told}; furthest c: +10.0%, b: -2.0%, a: +1.0%"
    assert judged({**claim, "median_error": 0.015}, ours).answer == "does not hold"


def test_other_columns_are_averaged_over_the_rounds() -> None:
    claim = {"check": "predicts", "value": "mean participants", "rounds": [2, 3], "median_error": 0.001}
    ours = grid({x: [[1.0, 1.0, 1.0]] * 6 for x in THEIRS})
    assert judged({**claim, "numbers": dict.fromkeys(THEIRS, 12.5)}, ours).answer == "holds"
    assert judged({**claim, "numbers": dict.fromkeys(THEIRS, 12.0)}, ours).answer == "does not hold"


def test_runs_of_others_cover_ours_at_a_share_of_the_points() -> None:
    ours = grid({"a": [[1.0]], "b": [[2.3]], "c": [[4.5]]})
    claim = {"check": "covers", "value": "final time_s", "share": 0.6, "deviations": 2}
    numbers = {"a": [1.05, 0.05], "b": [2.0, 0.1], "c": [4.0, 0.26]}
    found = judged({**claim, "numbers": numbers}, ours)
    assert found.answer == "holds", "two of three, at one and at nearly two deviations"
    assert found.measured.startswith("66.7% of 3 points; furthest b: +3.0")
    assert judged({**claim, "numbers": numbers, "share": 0.7}, ours).answer == "does not hold"


def test_a_claim_about_points_that_are_not_run_is_not_judged() -> None:
    claim = {"check": "predicts", "value": "final time_s", "numbers": THEIRS, "median_error": 0.05}
    with pytest.raises(NotRunError, match="2 of 3 points of x are not run at this scale"):
        judged(claim, grid({"a": [[1.0]]}))


def test_the_rounds_of_a_claim_are_in_order() -> None:
    claim = {"check": "predicts", "value": "final time_s", "numbers": THEIRS, "median_error": 0.05, "rounds": [5, 2]}
    with pytest.raises(ValidationError, match="must be the first round and a later one"):
        judged(claim, grid({"a": [[1.0]]}))


def test_updates_of_the_clients_that_had_fewest() -> None:
    clients = pd.DataFrame({"seed": 0, "used": [4, 17, 5, 15, 9], "exposures_up": 0, "exposures_down": 0})
    found = whole_run(pd.DataFrame({"seed": [0]}), clients, {}).iloc[0]
    shares = {percent: found[f"used_lowest_{percent}"] for percent in (10, 20, 40)}
    assert shares == {10: 4.0, 20: 4.0, 40: 4.5}
