"""Cells that get more seeds, and answers of the whole engine where the truth is known."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.grid import Grid
from asyncfl.experiments.next_looks import Wish, granted, hours, wishes_of
from asyncfl.experiments.plan import all_cells
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import judge

CLAIMS: list[dict[str, Any]] = [
    {
        "check": "order",
        "along": "privacy.epsilon",
        "says": "the loss falls",
        "where": {"privacy.epsilon": [10, 20, 30]},
    },
    {"check": "best_at", "along": "privacy.epsilon", "at": 40, "says": "best", "where": {"privacy.epsilon": [40, 50]}},
]
EPSILON = (10, 20, 30, 40, 50, 60)


def experiment(*claims: dict[str, Any], **fields: Any) -> Experiment:
    described: dict[str, Any] = {
        "title": "Loss by budget",
        "source": {"paper": "nbafl"},
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}, "privacy": {"kind": "nbafl", "epsilon": 50}},
        "axes": {"privacy.epsilon": list(EPSILON)},
        "seeds": {"full": {"looks": [3, 6, 12]}},
        "claims": list(claims),
        "name": "nbafl/looks",
    }
    return Experiment.model_validate({**described, **fields})


def grid(values: np.ndarray, counts: list[int]) -> Grid:
    """values: (cells, 12) final losses; counts: seeds of each cell that are there."""
    cells, seeds = np.concatenate([[(i, s) for s in range(n)] for i, n in enumerate(counts)]).T
    ends = pd.DataFrame({"privacy.epsilon": np.array(EPSILON)[cells], "seed": seeds, "diverged": False})
    ends["train_loss"] = values[cells, seeds]
    return Grid({"privacy.epsilon": EPSILON}, ends, ends)


def drawn(means: list[float], sd: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    own = rng.normal(0, sd / np.sqrt(2), (len(means), 12))
    return 10 + rng.normal(0, 3, 12) + np.array(means)[:, None] + own


def through_all_looks(of: Experiment, values: np.ndarray, most_s: float = math.inf) -> tuple[list[str], list[int]]:
    """(answers, seeds of each cell) after as many looks as the engine makes."""
    looks = {of.name: list(all_cells(of, "full"))}
    points = [cell.values for cell in looks[of.name][0]]
    counts = {of.name: [0] * len(EPSILON)}
    at = of.seeds.looks("full").at
    for _ in at[1:]:
        now = grid(values, [at[look] for look in counts[of.name]])
        counts = granted(wishes_of(of, "full", now, points), counts, looks, most_s)
    seeds = [at[look] for look in counts[of.name]]
    verdicts = judge(of, "full", grid(values, seeds), {}, of.seeds.looks("full"))
    return [verdict.verdict for verdict in verdicts], seeds


def test_only_cells_of_open_comparisons_get_more_seeds():
    # 10 -> 20 is clear, 20 -> 30 is not; 40 is clearly better than 50; nobody asks for 60
    values = drawn([90, 50, 49.4, 0, 90, 3], 1.0, 4)
    of = experiment(*CLAIMS)
    points = [cell.values for cell in next(all_cells(of, "full"))]
    (wish,) = wishes_of(of, "full", grid(values, [3] * 6), points)
    assert wish.cells == {1, 2}
    _, seeds = through_all_looks(of, values)
    assert seeds[:1] + seeds[3:] == [3, 3, 3, 3]
    assert min(seeds[1:3]) > 3


def test_a_verdict_is_frozen_whatever_is_added_later():
    of = experiment(CLAIMS[1])
    values = drawn([0, 0, 0, 0, 90, 0], 1.0, 1)
    assert judge(of, "full", grid(values, [3] * 6), {}, of.seeds.looks("full"))[0].verdict == "holds"
    values[3, 3:] += 30
    later = judge(of, "full", grid(values, [12] * 6), {}, of.seeds.looks("full"))[0]
    assert (later.verdict, later.seeds) == ("holds", 3)


def test_hours_go_to_the_likeliest_answer_for_its_cost():
    of = experiment()
    looks = {of.name: list(all_cells(of, "full"))}
    seconds = looks[of.name][1][0].scenario.estimated_cost() - looks[of.name][0][0].scenario.estimated_cost()
    wishes = [
        Wish(of.name, frozenset([0, 1]), 0.3),
        Wish(of.name, frozenset([2, 3, 4, 5]), 0.9),
        Wish(of.name, frozenset([1, 2]), 0.9),
    ]
    none = {of.name: [0] * 6}

    def after(cells: float, before: dict[str, list[int]] = none) -> list[int]:
        return granted(wishes, before, looks, cells * seconds)[of.name]

    assert after(0) == after(1) == [0] * 6
    assert after(2) == [0, 1, 1, 0, 0, 0]
    assert after(3) == [1, 1, 1, 0, 0, 0]  # three more for .9 are too many now, one more for .3 is not
    assert after(4) == [1, 1, 1, 0, 0, 0]  # the same chance for half the cost comes first
    assert after(5) == [0, 1, 1, 1, 1, 1]
    assert after(math.inf) == [1] * 6
    # what was added before counts; the next look of one cell costs twice as much as the one before
    assert after(2, {of.name: [0, 1, 1, 0, 0, 0]}) == [0, 1, 1, 0, 0, 0]
    assert after(6, {of.name: [0, 1, 1, 0, 0, 0]}) == [0, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("setting", ["many", "-1", "nan"])
def test_wrong_hours_are_refused(setting):
    with pytest.raises(ScenarioError, match="core_hours: must be a number of hours, 0 or more"):
        hours(setting)


def rates(effect: float, repetitions: int) -> tuple[dict[str, float], float]:
    """Shares of the answers to "40 is better than 50" where it is so by `effect` sd, and seeds per cell."""
    of = experiment(CLAIMS[1])
    found = [through_all_looks(of, drawn([0, 0, 0, 0, effect, 0], 1.0, n)) for n in range(repetitions)]
    answers = [answers[0] for answers, _ in found]
    shares = {answer: answers.count(answer) / repetitions for answer in ("holds", "does not hold")}
    return shares, float(np.mean([seeds[3] for _, seeds in found]))


def test_the_whole_engine_sees_what_is_there():
    shares, seeds = rates(2.0, 60)
    assert shares["holds"] >= 0.95
    assert seeds == pytest.approx(6.1, abs=0.8)


def test_a_claim_that_no_seeds_can_decide_asks_for_none():
    for claim in ({"value": "final test_accuracy"}, {"where": {"privacy.epsilon": [40]}}):
        of = experiment({**CLAIMS[1], **claim}, CLAIMS[0])
        points = [cell.values for cell in next(all_cells(of, "full"))]
        values = drawn([90, 50, 49.4, 0, 90, 3], 1.0, 4)
        (wish,) = wishes_of(of, "full", grid(values, [3] * 6), points)
        assert wish.cells == {1, 2}
