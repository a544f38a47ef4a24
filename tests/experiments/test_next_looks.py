"""Cells that get more seeds."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.experiments.grid import Grid
from asyncfl.experiments.next_looks import Wish, granted, hours, next_looks, wishes_of
from asyncfl.experiments.plan import all_cells
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import judge
from tests.experiments.results_folder import make_experiment, write_run

CLAIMS: list[dict[str, Any]] = [
    {"check": "order", "along": "privacy.epsilon", "says": "it falls", "where": {"privacy.epsilon": [10, 20, 30]}},
    {"check": "best_at", "along": "privacy.epsilon", "at": 40, "says": "best", "where": {"privacy.epsilon": [40, 50]}},
]
EPSILON = (10, 20, 30, 40, 50, 60)


def experiment(*claims: dict[str, Any], **fields: Any) -> Experiment:
    return make_experiment(
        scenario={"protocol": {"kind": "sync", "rounds": 4}, "privacy": {"kind": "nbafl", "epsilon": 50}},
        axes={"privacy.epsilon": list(EPSILON)},
        seeds={"full": {"looks": [3, 6, 12]}},
        claims=list(claims),
        quick={},
        **fields,
    )


def grid(values: np.ndarray, counts: list[int]) -> Grid:
    """values: (cells, 12) final losses; counts: seeds of each cell that are there."""
    cells, seeds = np.array([(i, s) for i, n in enumerate(counts) for s in range(n)]).T
    ends = pd.DataFrame({"privacy.epsilon": np.array(EPSILON)[cells], "seed": seeds, "diverged": False})
    ends["train_loss"] = values[cells, seeds]
    return Grid({"privacy.epsilon": EPSILON}, ends, ends)


def drawn(means: list[float], sd: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    own = rng.normal(0, sd / np.sqrt(2), (len(means), 12))
    return 10 + rng.normal(0, 3, 12) + np.array(means)[:, None] + own


def test_only_cells_of_open_comparisons_get_more_seeds():
    # 10 -> 20 is clear, 20 -> 30 is not; 40 is clearly better than 50; nobody asks for 60
    values = drawn([90, 50, 49.4, 0, 90, 3], 1.0, 4)
    # a claim on a column that is not there, or on one cell alone, asks for no seeds
    idle = [{**CLAIMS[1], **of} for of in ({"value": "final test_accuracy"}, {"where": {"privacy.epsilon": [40]}})]
    of = experiment(*CLAIMS, *idle)
    points = [cell.values for cell in next(all_cells(of, "full"))]
    (wish,) = wishes_of(of, "full", grid(values, [3] * 6), points)
    assert wish.cells == {1, 2}


def silent_on_epsilon() -> tuple[Experiment, np.ndarray]:
    """Return an experiment that asks for a loss of at most 10 with a budget of 10 or 20, of which its paper states
    none, and losses that do not tell (cells, seeds)."""
    claim = {"check": "at_least", "goal": "low", "threshold": 10, "says": "at most 10", "printed": "fig. 2"}
    of = experiment(
        {**claim, "where": {"privacy.epsilon": [10, 20]}},
        prints={"privacy.epsilon": {"prints": "silent", "name": "epsilon"}},
    )
    return of, np.full((6, 12), 10.0) + np.array([0.0, 2.1, -2.0] * 4)


def test_open_values_of_a_silent_setting_get_seeds_where_another_value_fails():
    """The loss is far above 10 with the first budget, and about 10 with the second; the paper states no budget."""
    of, values = silent_on_epsilon()
    values[0] += 80
    points = [cell.values for cell in next(all_cells(of, "full"))]
    looks = of.seeds.looks("full")
    assert judge(of, "full", grid(values, [3] * 6), {}, looks)[0].verdict == "not decided"
    (wish,) = wishes_of(of, "full", grid(values, [3] * 6), points)
    assert wish.cells == {1}
    # once it holds at the second budget it depends on the budget, which more seeds do not change
    values[1] -= 80
    assert judge(of, "full", grid(values, [3] * 6), {}, looks)[0].verdict == "depends"
    assert wishes_of(of, "full", grid(values, [3] * 6), points) == []


def test_one_value_of_a_silent_setting_gets_no_seeds_where_the_others_are_not_run():
    """Whatever it shows, nothing is said of the paper before another budget is run."""
    of, values = silent_on_epsilon()
    points = [cell.values for cell in next(all_cells(of, "full"))]
    assert wishes_of(of, "full", grid(values, [3, 0, 3, 3, 3, 3]), points) == []
    (wish,) = wishes_of(of, "full", grid(values, [3] * 6), points)
    assert wish.cells == {0, 1}


def test_the_next_looks_follow_from_the_runs_on_disk(tmp_path):
    """Seeds fall by 40 % from 10 to 20 and lie apart by more than 20 and 30 do; 60 enters no claim."""
    of = experiment(CLAIMS[0])
    losses = {10: 1.0, 20: 0.6, 30: 0.599, 40: 0.5, 50: 0.4, 60: 0.3}
    for seeds, cells in zip((3, 6), all_cells(of, "full"), strict=False):
        for cell in cells:
            folder = write_run(tmp_path / cell.digest, losses[cell.values["privacy.epsilon"]], seeds)
            if cell.values["privacy.epsilon"] == 30:
                rounds = pd.read_parquet(folder / "rounds.parquet")
                rounds["train_loss"] += 0.2 * (rounds["seed"] % 2) - 0.1
                rounds.to_parquet(folder / "rounds.parquet")
    experiments = {of.name: of}
    first = next_looks(experiments, "full", tmp_path)
    assert first == {of.name: [0, 1, 1, 0, 0, 0]}
    assert next_looks(experiments, "full", tmp_path, first, core_hours=0) == first
    with pytest.raises(RunError, match="cannot be read as a run"):
        next_looks(experiments, "full", tmp_path / "nowhere")


def test_a_verdict_follows_all_seeds_whatever_an_earlier_look_said():
    of = experiment(CLAIMS[1])
    values = drawn([0, 0, 0, 0, 90, 0], 1.0, 1)
    assert judge(of, "full", grid(values, [3] * 6), {}, of.seeds.looks("full"))[0].verdict == "holds"
    values[3, 3:] += 300
    later = judge(of, "full", grid(values, [12] * 6), {}, of.seeds.looks("full"))[0]
    assert (later.verdict != "holds", later.seeds) == (True, 12)


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
