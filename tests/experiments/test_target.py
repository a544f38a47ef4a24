import numpy as np
import pandas as pd
import pytest

from asyncfl.base.errors import RunError
from asyncfl.experiments.intervals import over_seeds
from asyncfl.experiments.run_tables import collect
from asyncfl.experiments.table import Table
from asyncfl.experiments.target import Settling, Target

ROUNDS = pd.DataFrame(
    {
        "seed": [0, 0, 0, 1, 1, 1],
        "round": [0, 1, 2, 0, 1, 2],
        "time_s": [0.0, 5.0, 9.0, 0.0, 6.0, 8.0],
        "test_accuracy": [0.1, 0.6, 0.5, 0.1, np.nan, 0.4],
        "test_loss": [2.3, 1.0, 0.5, 2.3, np.nan, 0.9],
        "bytes_up": [0, 10, 20, 0, 10, 20],
        "bytes_down": [0, 1, 2, 0, 1, 2],
    }
)
ENDS = pd.DataFrame({"seed": [0, 1], "diverged": [False, False]})


def reached(ends=ENDS, **target):
    return Target(**target).costs(ROUNDS, ends).tolist()


def test_cost_at_the_first_version_that_gets_there():
    assert reached(reaches=0.4) == [5.0, 8.0]
    assert reached(reaches=0.4, cost="bytes") == [11.0, 22.0]
    assert reached(reaches=0.4, cost="round") == [1.0, 2.0]
    assert reached(reaches=1.0, column="test_loss", direction="falls") == [5.0, 8.0]


def test_never_is_infinite():
    assert reached(reaches=0.55) == [5.0, np.inf]
    assert reached(ends=ENDS.assign(diverged=[True, False]), reaches=0.4) == [np.inf, 8.0]


def test_a_missing_column_is_named():
    with pytest.raises(RunError, match="no column accuracy"):
        reached(column="accuracy", reaches=1)


def test_a_target_that_a_seed_missed_has_no_mean(tmp_path, make_run):
    # final accuracies are 1 - loss / 3: seeds .001 apart in their loss
    run = make_run(tmp_path / "run", 0.5, seeds=2)
    targets = {"near": Target(reaches=0.8), "far": Target(reaches=1 - 0.5005 / 3)}
    ends = collect([({"a": 1}, run)], targets)["ends"]
    assert ends["near"].tolist() == [40.0, 40.0]
    assert ends["far"].tolist() == [40.0, np.inf]
    final = over_seeds(ends, ["a"], by_round=False).set_index("metric")
    assert final.loc["near", "mean"] == 40.0
    assert np.isinf(final.loc["far", "mean"])
    assert np.isnan(final.loc["far", ["low", "high"]].astype(float)).all()
    table = Table(rows="a", value="far")
    assert "not by all seeds" in table.markdown({"a": (1,)}, final.reset_index())


def rising(until, rounds=100, step=0.01):
    """A curve that rises by `step` each round up to `until` and then stays, by round from 0 on."""
    return pd.Series([step * min(at, until) for at in range(rounds + 1)])


def test_a_run_settles_at_its_plateau():
    assert Settling(within=0.0, window=0.01).settled_round(rising(50)) == 50
    assert Settling(within=0.1, window=0.01).settled_round(rising(50)) == 40
    # the mean of the last ten rounds reaches the plateau nine rounds after its last step
    assert Settling(within=0.0, window=0.1).settled_round(rising(50)) == 59


def test_a_run_that_still_rose_shortly_before_its_end_has_not_settled():
    assert Settling(within=0.0, window=0.01).settled_round(rising(80)) == 80
    assert Settling(within=0.0, window=0.01).settled_round(rising(81)) is None
    assert Settling(within=0.0, window=0.01, watched=0.01).settled_round(rising(100)) is None


def test_dips_after_settling_do_not_count_and_neither_do_rounds_that_were_not_judged():
    curve = rising(50)
    curve[70] = 0.1
    curve[51:60:2] = np.nan
    assert Settling(within=0.0, window=0.01).settled_round(curve) == 50
    assert Settling(within=0.0).settled_round(curve * np.nan) is None


def test_a_run_that_learns_nothing_has_not_settled():
    flat, falling = pd.Series(np.full(101, 0.1)), pd.Series(np.linspace(0.5, 0.1, 101))
    for curve in (flat, falling, flat + 0.009 * (np.arange(101) % 2)):
        assert Settling(within=0.01).settled_round(curve) is None
    # the initial model need not have been judged
    assert Settling(within=0.1, window=0.01).settled_round(rising(50)[10:]) == 40


def test_settling_is_a_target_of_each_seed():
    falling = 2.0 - np.concatenate([rising(50), rising(100)])
    rounds = pd.DataFrame({"seed": np.repeat([0, 1], 101), "round": np.tile(np.arange(101), 2), "test_loss": falling})
    target = Target(column="test_loss", settles={"within": 0.0, "window": 0.01}, direction="falls", cost="round")
    assert target.costs(rounds, ENDS).tolist() == [50.0, np.inf]


@pytest.mark.parametrize("fields", [{}, {"reaches": 0.5, "settles": {"within": 0.1}}])
def test_a_target_is_a_value_or_a_settled_column(fields):
    with pytest.raises(ValueError, match="either reaches, a value, or settles"):
        Target(**fields)
