"""Values of an experiment at a point, by seed: final ones, over rounds, best ones, and what is not there."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.grid import Grid, MissingError, NotRunError, bound_grid, fluctuation, same, select

INF = np.inf
AXES: dict[str, tuple[Any, ...]] = {"K": (5, 10), "mode": ("a", "b")}


def grid(**of: Any) -> Grid:
    """Two seeds at each point, the second listed first; the loss in round r is 10 K + r^2 + seed, at `b` twice that."""
    ends, rounds = [], []
    for mode in AXES["mode"]:
        for k in AXES["K"]:
            for seed in (7, 3):
                at = {"K": k, "mode": mode, "seed": seed}
                losses = [(10 * k + r**2 + seed) * (2 if mode == "b" else 1) for r in range(4)]
                rounds += [{**at, "round": r, "loss": float(loss)} for r, loss in enumerate(losses)]
                gone = (k, mode, seed) == (10, "b", 7)
                ends.append({**at, "round": 3, "loss": float(losses[-1]), "diverged": gone})
    return Grid(AXES, pd.DataFrame(rounds), pd.DataFrame(ends), **of)


def read(value: str, low_is_good: bool = True, **at: Any) -> tuple[list[int], list[float]]:
    found = grid().seeds_of(value, at, low_is_good)
    return found.seeds.tolist(), found.values.tolist()


def test_values_are_ordered_by_seed() -> None:
    assert read("final loss", K=5, mode="a") == ([3, 7], [62.0, 66.0])
    assert read("mean loss", K=5, mode="a") == ([3, 7], [pytest.approx(53 + 14 / 3), pytest.approx(57 + 14 / 3)])
    assert read("lowest loss", K=5, mode="a") == ([3, 7], [54.0, 58.0])
    assert read("highest loss", K=5, mode="b") == ([3, 7], [124.0, 132.0])
    assert read("lowest from round 2 loss", K=5, mode="a") == ([3, 7], [57.0, 61.0])
    assert read("round 2 loss", K=5, mode="a") == ([3, 7], [57.0, 61.0])
    # Half of the second difference of r^2.
    assert read("fluctuation loss", K=5, mode="a") == ([3, 7], [1.0, 1.0])
    # from round 1 to round 3 of r^2; the initial model belongs to no round
    assert read("rise loss", K=5, mode="a") == ([3, 7], [8.0, 8.0])


def test_a_diverged_seed_has_the_worst_value() -> None:
    assert read("final loss", K=10, mode="b") == ([3, 7], [224.0, INF])
    assert read("mean loss", False, K=10, mode="b")[1][1] == -INF


def test_means_over_a_window_of_rounds() -> None:
    found = grid().window("loss", {"K": 5, "mode": "a"}, 1, 2, True)
    assert (found.seeds.tolist(), found.values.tolist()) == ([3, 7], [55.5, 59.5])
    assert grid().window("loss", {"K": 10, "mode": "b"}, 0, 3, True).values.tolist()[1] == INF
    with pytest.raises(NotRunError, match="no round 9, runs end at round 3"):
        read("round 9 loss", K=5, mode="a")
    with pytest.raises(NotRunError, match=r"no rounds 4\.\.9 at K = 5, mode = a"):
        grid().window("loss", {"K": 5, "mode": "a"}, 4, 9, True)
    with pytest.raises(MissingError, match="the runs have no column accuracy"):
        grid().window("accuracy", {"K": 5, "mode": "a"}, 1, 2, True)


def test_a_curve_is_the_mean_over_seeds_from_the_first_round_on() -> None:
    curve = grid().curve("loss", {"K": 5, "mode": "a"})
    assert curve.to_dict() == {1: 56.0, 2: 59.0, 3: 64.0}


def test_points_are_those_that_are_run() -> None:
    assert list(grid().points({})) == [{"K": k, "mode": m} for k in (5, 10) for m in ("a", "b")]
    assert list(grid().points({"K": [10, 20]}, free=["mode"])) == [{"K": 10}]
    with pytest.raises(NotRunError, match="K = 20, 30 is not run at this scale"):
        list(grid().points({"K": [20, 30]}))
    with pytest.raises(NotRunError, match="no run at K = 7"):
        read("final loss", K=7)
    with pytest.raises(MissingError, match="no column accuracy"):
        read("final accuracy", K=5, mode="a")


def test_axis_values_are_found_whatever_a_file_made_of_their_types() -> None:
    assert same(pd.Series(["5", "10.0", "no noise"]), 10).tolist() == [False, True, False]
    assert same(pd.Series([True, False]), "true").tolist() == [True, False]
    assert same(pd.Series([True, False]), "false").tolist() == [False, True]
    assert same(pd.Series(["a", "b"]), "b").tolist() == [False, True]
    assert same(pd.Series([1.0, INF]), INF).tolist() == [False, True]
    frame = pd.DataFrame({"K": [1, 2, 3, 2], "mode": ["a", "a", "b", "b"]})
    assert select(frame, {"K": [2, 3], "mode": "b"}).tolist() == [False, False, True, True]
    assert select(frame, {}).tolist() == [True] * 4


def test_fluctuation_is_the_root_mean_square_of_second_differences() -> None:
    assert fluctuation(pd.Series([1.0, 3.0, 5.0, 7.0])) == 0.0
    # Off the middle of its neighbours by 2 and by -3.
    assert fluctuation(pd.Series([0.0, 2.0, np.nan, 0.0, 4.0])) == pytest.approx(np.sqrt((2**2 + 3**2) / 2))
    assert np.isnan(fluctuation(pd.Series([1.0, np.nan, 2.0])))


def test_a_bound_is_one_seed_without_error() -> None:
    bound = bound_grid({"x": (1, 2)}, pd.DataFrame({"x": [1, 2], "bound": [0.5, 0.25]}))
    found = bound.seeds_of("final bound", {"x": 2}, True)
    assert (found.seeds.tolist(), found.values.tolist(), bound.exact) == ([0], [0.25], True)


def test_the_best_value_of_an_axis_is_that_of_each_seed() -> None:
    losses = {5: [1.0, 4.0, 2.0], 10: [2.0, 3.0, 2.5]}
    ends = pd.DataFrame(
        [
            {"K": k, "seed": seed, "diverged": False, "loss": loss}
            for k, of in losses.items()
            for seed, loss in enumerate(of)
        ]
    )
    of = Grid({"K": (5, 10)}, ends.assign(round=3), ends)
    assert of.seeds_of("best K of final loss", {}, True).values.tolist() == [5.0, 10.0, 5.0]
    assert of.seeds_of("best K of final loss", {}, False).values.tolist() == [10.0, 5.0, 10.0]
