"""Sentences about a ledger: unit, neighbours, delta, epsilon, what it rests on, whom it trusts."""

import math

import pyarrow as pa

from asyncfl.privacy.ledger.statements import statements

ROW = {
    "seed": 0,
    "holder": "client",
    "client": 0,
    "adversary": "eavesdropper",
    "trusts": "server, clients",
    "unit": "sample",
    "neighbours": "replace",
    "status": "heuristic",
    "claimed_epsilon": 6.0,
    "delta": 1e-5,
    "exact_epsilon": 8.5,
    "provable": 10567.0,
    "measured": None,
}


def said(*rows):
    return statements(pa.Table.from_pylist([{**ROW, **row} for row in rows]))


def test_the_client_that_it_knows_most_of_stands_for_all():
    assert said({}, {"client": 3, "exact_epsilon": 9.25, "measured": 20.0}, {"client": 4, "exact_epsilon": 0.0}) == [
        "eavesdropper: epsilon 9.25 (claimed 6, provable 1.057e+04, measured at least 20) at delta 1e-05 for one "
        "sample replaced, of client 3, by a sensitivity that is argued for, not proven; trusting server, clients"
    ]


def test_a_proof_is_said_once():
    proven = {"status": "proven", "unit": "client", "neighbours": "zero_out", "provable": 8.5}
    assert said({**proven, "claimed_epsilon": math.inf}) == [
        "eavesdropper: epsilon 8.5 at delta 1e-05 for the updates of one client counted as zero, of client 0, proven; "
        "trusting server, clients"
    ]


def test_nothing_and_everything_are_no_numbers():
    found = said(
        {"exact_epsilon": 0.0},
        {"adversary": "both", "trusts": "", "exact_epsilon": math.inf},
        {"adversary": "public", "provable": math.inf, "neighbours": "shuffled"},
        {"adversary": "both", "holder": "model", "exact_epsilon": math.inf},
    )
    assert found == [
        "eavesdropper: learns nothing of any client (trusting server, clients)",
        "both: what it holds of client 0 hides nothing, epsilon is infinite (trusting nobody)",
        "public: epsilon 8.5 (claimed 6, provable nothing) at delta 1e-05 for sample: shuffled, of client 0, by a "
        "sensitivity that is argued for, not proven; trusting server, clients",
    ]
