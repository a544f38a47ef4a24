import numpy as np
import pandas as pd
import pytest

from asyncfl.analysis.pivot import markdown
from asyncfl.analysis.tables import collect, over_seeds
from asyncfl.analysis.targets import add_targets
from asyncfl.errors import RunError
from asyncfl.experiment import Table, Target

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
    return add_targets({"x": Target(**target)}, ROUNDS, ends)["x"].tolist()


def test_cost_at_the_first_version_that_gets_there():
    assert reached(reaches=0.4) == [5.0, 8.0]
    assert reached(reaches=0.4, cost="bytes") == [11.0, 22.0]
    assert reached(reaches=0.4, cost="round") == [1.0, 2.0]
    assert reached(reaches=1.0, column="test_loss", direction="falls") == [5.0, 8.0]


def test_never_is_infinite():
    assert reached(reaches=0.55) == [5.0, np.inf]
    assert reached(ends=ENDS.assign(diverged=[True, False]), reaches=0.4) == [np.inf, 8.0]


def test_a_column_that_is_not_there_is_named():
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
    assert np.isnan(final.loc["far", ["low", "high", "least", "most"]].astype(float)).all()
    table = Table(rows="a", value="far")
    assert "not by all seeds" in markdown(table, {"a": (1,)}, final.reset_index())
