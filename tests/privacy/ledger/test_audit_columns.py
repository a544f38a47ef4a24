"""Audit results in a ledger: a lower bound can break a claim but never prove it."""

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.privacy.ledger.audit_columns import with_measured, without_measured

ONE, TWO, MODELS = (0, "client", 0, "server"), (0, "client", 1, "server"), (0, "model", -1, "public")


@pytest.fixture
def ledger():
    return pa.table(
        {
            "seed": [0, 0, 0],
            "holder": ["client", "client", "model"],
            "client": [0, 1, -1],
            "adversary": ["server", "server", "public"],
            "status": ["heuristic", "heuristic", "proven"],
            "claimed_epsilon": [6.0, 6.0, 6.0],
            "exact_epsilon": [5.9, 5.9, 5.0],
            "provable": [10567.0, 10567.0, 5.0],
            "measured": pa.array([None, None, None], pa.float64()),
            "measured_by_twins": pa.array([None, None, None], pa.float64()),
            "measured_by_canaries": pa.array([None, None, None], pa.float64()),
            "flags": ["sensitivity heuristic", "sensitivity heuristic", ""],
            "claim_holds": pa.array([None, None, True], pa.bool_()),
        }
    )


@pytest.mark.parametrize(("epsilon", "holds"), [(20.0, False), (2.0, None)])
def test_only_a_measurement_above_the_claim_breaks_it(ledger, epsilon, holds):
    found = with_measured(ledger, {ONE: epsilon, MODELS: 0.3}, frozenset({ONE}))
    assert found.schema == ledger.schema
    assert found["measured"].to_pylist() == [epsilon, None, 0.3]
    assert found["status"].to_pylist() == ["disproved", "heuristic", "proven"]
    assert found["claim_holds"].to_pylist() == [holds, None, True]
    assert ledger["measured"].null_count == 3


def test_removing_an_audit_restores_the_ledger(ledger):
    found = with_measured(ledger, {ONE: 20.0, MODELS: 0.3}, frozenset({ONE}))
    assert without_measured(found, 0).equals(ledger)
    assert without_measured(found, 1).equals(found)


def test_breaking_a_proven_row_raises(ledger):
    with pytest.raises(ValueError, match="proven, but an audit found a counterexample"):
        with_measured(ledger, {MODELS: 9.0}, frozenset({MODELS}))
    with pytest.raises(KeyError):
        with_measured(ledger, {(1, "client", 0, "server"): 1.0})


def test_audits_have_separate_columns_and_the_largest_counts(ledger):
    found = with_measured(ledger, {ONE: 20.0, TWO: 5.0}, frozenset({ONE}))
    both = with_measured(found, {ONE: 3.0, TWO: 7.0}, by="canaries")
    assert both["measured"].to_pylist() == [20.0, 7.0, None]
    assert both["measured_by_twins"].to_pylist() == [20.0, 5.0, None]
    assert both["measured_by_canaries"].to_pylist() == [3.0, 7.0, None]
    assert both["claim_holds"].to_pylist() == [False, False, True]
    assert without_measured(both, 0, "canaries").equals(found)
    alone = without_measured(both, 0)
    assert alone["measured"].to_pylist() == [3.0, 7.0, None]
    assert alone["status"].to_pylist() == ["heuristic", "heuristic", "proven"]


@pytest.mark.parametrize(("flags", "holds"), [("released without noise", False), ("sensitivity heuristic", None)])
def test_an_unbounded_epsilon_breaks_a_claim_only_without_noise(ledger, flags, holds):
    endless = {name: pa.array([np.inf] * 3) for name in ("exact_epsilon", "provable")} | {"flags": [flags] * 3}
    ledger = pa.table({name: endless.get(name, ledger[name]) for name in ledger.column_names})
    assert with_measured(ledger, {ONE: 5.0})["claim_holds"].to_pylist() == [holds] * 3
    assert with_measured(ledger, {ONE: 7.0})["claim_holds"].to_pylist()[0] is False
