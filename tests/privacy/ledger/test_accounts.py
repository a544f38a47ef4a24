"""Epsilon over time, from releases given by hand."""

import numpy as np
import pytest

from asyncfl.privacy.ledger.accounts import COLUMNS, Account, largest, spending
from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.scheme import Guarantee

STATED = Guarantee("sample", "replace", "proven", 2.0, 1e-5, 1)


def account(holder, moment, multiplier, **columns):
    n = len(holder)
    values = {
        "laplace": np.zeros(n, dtype=bool),
        "sigma": np.array(multiplier, dtype=float),
        "sensitivity": np.ones(n),
        "count": np.ones(n, dtype=np.int64),
        "epsilon": np.full(n, 2.0),
        "counted": np.ones(n, dtype=np.int64),
    }
    releases = Releases(np.array(holder, dtype=int), np.array(moment, dtype=int), **(values | columns))
    return Account("server", STATED, releases, frozenset(), frozenset())


def rows(found, holder, column="exact_epsilon"):
    chosen = found["holder"] == holder
    return list(zip(found["client"][chosen], found["moment"][chosen], found[column][chosen], strict=True))


def test_a_client_has_a_row_whenever_its_epsilon_changes():
    held = account([0, 1, 0, 0], [1, 1, 3, 3], [5.0, 9.0, 5.0, 5.0])
    found = spending([held], [], clients=3, moments=5)
    assert list(found) == list(COLUMNS)
    assert [row[:2] for row in rows(found, "client")] == [(0, 1), (0, 3), (1, 1)]
    assert [value for _, _, value in rows(found, "client", "releases")] == [1, 3, 1]
    assert [value for _, _, value in rows(found, "client", "claimed_epsilon")] == [2, 6, 2]


def test_the_largest_the_median_and_the_mean_are_over_all_clients():
    held = account([0, 1, 0], [0, 2, 2], [5.0, 9.0, 5.0])
    spent = held.spent.exact
    found = spending([held], [], clients=3, moments=3)
    ends = {name: rows(found, name)[-1][2] for name in ("largest", "median", "mean")}
    assert ends == pytest.approx({"largest": spent[2], "median": spent[1], "mean": (spent[1] + spent[2]) / 3})
    assert [value for _, _, value in rows(found, "largest")] == largest(held, 3, 3)["exact"].tolist()
    assert len(rows(found, "mean")) == 3


def test_spending_without_releases():
    assert {len(column) for column in spending([], [], clients=3, moments=2).values()} == {0}
    empty = account([], [], [])
    found = spending([empty], [], clients=2, moments=2)
    assert rows(found, "largest") == [(-1, 0, 0.0), (-1, 1, 0.0)]


@pytest.mark.parametrize(("clients", "apart"), [(200, True), (201, False)])
def test_large_runs_have_only_summary_rows(clients, apart):
    found = spending([account([0, 1], [1, 1], [5.0, 9.0])], [], clients=clients, moments=2)
    assert ("client" in found["holder"]) == apart
    assert set(found["holder"]) - {"client"} == {"largest", "median", "mean"}
    assert [row[1] for row in rows(found, "mean")] == [0, 1]
