from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.federation.storage import Run
from asyncfl.trace.epsilon_curves import epsilon_curves


def table(**columns: Any) -> pa.Table:
    """The largest epsilon at four versions of seed 3."""
    rows = {
        "seed": [3] * 4,
        "holder": ["largest"] * 4,
        "adversary": ["server"] * 4,
        "time_s": [0.0, 1.0, 2.5, 4.0],
        "exact_epsilon": [0.0, 2.0, 2.0, 3.5],
    }
    return pa.table(rows | columns)


def test_a_curve_has_a_point_wherever_the_largest_epsilon_rises() -> None:
    (found,), missing = epsilon_curves(table())
    assert (found.seed, found.adversary, missing) == (3, "server", [])
    assert found.time_s.tolist() == [0, 1, 4]
    assert found.epsilon.tolist() == [0, 2, 3.5]


def test_points_of_one_moment_are_kept_in_order() -> None:
    (found,), _ = epsilon_curves(table(exact_epsilon=[0.5, 0.5, 0.75, 1.5], time_s=[0.0, 0.0, 0.0, 4.0]))
    assert (found.time_s.tolist(), found.epsilon.tolist()) == ([0, 0, 4], [0.5, 0.75, 1.5])


def test_unbounded_and_missing_epsilons_are_named() -> None:
    found, (missing,) = epsilon_curves(table(exact_epsilon=[0.0, np.inf, np.inf, np.inf]))
    assert (found, missing[:27]) == ([], "seed 3, server: unbounded, ")
    assert epsilon_curves(table(holder=["model"] * 4)) == ([], ["the run has no rows of clients"])


def test_curves_end_at_the_epsilon_of_the_ledger(lossy: Run) -> None:
    found, missing = epsilon_curves(lossy.tables["spending"])
    assert missing == []
    assert len(found) == 10, "five adversaries, two seeds"
    ledger = lossy.ledger[lossy.ledger["holder"] == "client"]
    ends = ledger.groupby(["seed", "adversary"])["exact_epsilon"].max()
    for part in found:
        assert part.epsilon[-1] == pytest.approx(ends[part.seed, part.adversary])
        assert (np.diff(part.epsilon) > 0).all()
