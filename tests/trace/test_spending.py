from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.privacy.gaussian import exact_epsilon
from asyncfl.storage import Run
from asyncfl.trace.spending import spending


def ledger(**columns: Any) -> pa.Table:
    """The ledger of clients 0..2 of the story."""
    rows = {
        "seed": [3] * 3,
        "holder": ["client"] * 3,
        "client": [0, 1, 2],
        "adversary": ["server"] * 3,
        "releases": [1, 1, 1],
        "squared_mu": [2.0, 1.0, 5.0],
        "delta": [0.01] * 3,
    }
    return pa.table(rows | columns)


def plus_one(squared_mu: np.ndarray[Any, Any], delta: float) -> np.ndarray[Any, Any]:
    return squared_mu + 1


def test_it_rises_when_the_client_best_known_is_known_better(story: pa.Table) -> None:
    (found,), missing = spending(story, ledger(), plus_one)
    assert (found.seed, found.adversary, missing) == (3, "server", [])
    # Client 0 is judged at 5 s, client 1, whose update says less, at the same time, client 2 at 9.8 s.
    assert found.time_s.tolist() == [0, 5, 9.8]
    assert found.epsilon.tolist() == [1, 3, 6]


def test_the_eavesdropper_learns_when_the_tap_hears(story: pa.Table) -> None:
    heard = ledger(adversary=["eavesdropper"] * 3, releases=[0, 1, 0], squared_mu=[0.0, 4.0, 0.0])
    (found,), _ = spending(story, heard, plus_one)
    assert (found.time_s.tolist(), found.epsilon.tolist()) == ([0, 5], [1, 5])


def test_what_tap_and_server_both_have_is_one_release(story: pa.Table) -> None:
    (found,), missing = spending(story, ledger(adversary=["both"] * 3), plus_one)
    assert missing == []
    # The tap hears client 1 before the server judges client 0, both at 5 s.
    assert found.time_s.tolist() == [0, 5, 5, 9.8]
    assert found.epsilon.tolist() == [1, 2, 3, 6]


def test_who_hears_nothing_learns_nothing(story: pa.Table) -> None:
    quiet = story.filter(pc.not_equal(story["kind"].cast(pa.string()), "overheard"))
    none = ledger(adversary=["eavesdropper"] * 3, releases=[0] * 3, squared_mu=[0.0] * 3, delta=[0.0] * 3)
    (found,), _ = spending(quiet, none, plus_one)
    assert (found.time_s.tolist(), found.epsilon.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"squared_mu": [np.inf, 1.0, 1.0]}, "unbounded"),
        ({"delta": [0.0] * 3}, "unbounded"),
        ({"releases": [2, 1, 1]}, "other releases than the trace"),
        ({"adversary": ["oracle"] * 3}, "does not say when"),
        ({"holder": ["model"] * 3}, "no rows of clients"),
    ],
)
def test_what_cannot_be_told_is_named(story: pa.Table, columns: dict[str, Any], reason: str) -> None:
    found, (missing,) = spending(story, ledger(**columns), plus_one)
    assert found == []
    assert reason in missing


def test_it_ends_at_what_the_ledger_says(lossy: Run) -> None:
    found, missing = spending(lossy.tables["events"], lossy.tables["ledger"], exact_epsilon)
    assert missing == []
    assert len(found) == 6
    ledger = lossy.ledger[lossy.ledger["holder"] == "client"]
    ends = ledger.groupby(["seed", "adversary"])["exact_epsilon"].max()
    for part in found:
        assert part.epsilon[-1] == pytest.approx(ends[part.seed, part.adversary])
        assert (np.diff(part.epsilon) > 0).all()
