"""Hypothetical rows of a ledger, against runs in which the change did happen."""

import math
from functools import cache
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.privacy.ledger.adversary_summaries import Row, client_rows
from asyncfl.results.storage import Run
from asyncfl.results.what_if import Hypothesis, hypothesis

ONE_PACKET = 10**6


ROUNDS = {"kind": "sync", "rounds": 8}
BUFFERED = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}


@cache
def run(at: str, mtu_bytes: int = ONE_PACKET, retransmissions: int = 0, buffered: bool = False) -> Run:
    """Four clients that upload in eight rounds or to a buffer, over links that lose 3 packets of 10, heard `at` a
    place."""
    uplink = {"mtu_bytes": mtu_bytes, "loss": {"kind": "independent", "probability": 0.3}}
    return simulate(
        {
            **scenario(protocol=BUFFERED if buffered else ROUNDS),
            "world": {
                "uplink": uplink | {"retransmissions": retransmissions},
                "tap": {"uplink": True, "at": at},
            },
        }
    )


def scenario(**changes: Any) -> dict[str, Any]:
    common: dict[str, Any] = {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 4, "samples_per_client": 20, "test_samples": 20},
        "model": {"kind": "mlp", "hidden": [2]},
        "protocol": ROUNDS,
        "privacy": {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 3.0},
        "seeds": [0, 1],
    }
    return common | changes


def answered(of: Run, change: str) -> Hypothesis:
    return hypothesis(of, client_rows(of.tables["ledger"]), change)


def eavesdroppers(of: Run) -> list[Row]:
    return [row for row in client_rows(of.tables["ledger"]) if row["adversary"] == "eavesdropper"]


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(("there", "here"), [("sender", "receiver"), ("receiver", "sender"), ("link", "receiver")])
def test_a_moved_tap_holds_what_one_holds_that_was_there(there: str, here: str, buffered: bool) -> None:
    answer = answered(run(there, buffered=buffered), f"tap.at={here}")
    truth = eavesdroppers(run(here, buffered=buffered))
    before = eavesdroppers(run(there, buffered=buffered))
    assert [row["releases"] for row in truth] != [row["releases"] for row in before]
    for column in ("seed", "client", "releases"):
        assert [row[column] for row in answer.rows] == [row[column] for row in truth]
    for column in ("exact_epsilon", "provable"):
        assert [row[column] for row in answer.rows] == pytest.approx([row[column] for row in truth], rel=1e-9)


@pytest.mark.parametrize("retransmissions", [0, 1])
def test_a_tap_at_the_receiver_is_bounded_from_above_where_uploads_have_several_packets(retransmissions: int) -> None:
    mine = answered(run("sender", 4000, retransmissions), "tap.at=receiver").rows
    truth = eavesdroppers(run("receiver", 4000, retransmissions))
    assert all(one["exact_epsilon"] >= row["exact_epsilon"] - 1e-9 for one, row in zip(mine, truth, strict=True))


def test_sums_of_two_equal_updates_have_the_noise_of_both() -> None:
    """A weight of 1/2 each: mu = 2 (1/2) / (.5 sqrt(1/4 + 1/4)) = 2 sqrt(2), against 4 of the upload by itself."""
    two = {"dataset": "mnist", "source": "embedded", "clients": 2, "samples_per_client": 20, "test_samples": 20}
    privacy = {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 0.5}
    found = simulate(scenario(data=two, protocol={"kind": "sync", "rounds": 1}, privacy=privacy, seeds=[0]))
    rows = answered(found, "secure-aggregation").rows
    assert [(row["adversary"], row["client"], row["releases"]) for row in rows] == [("server", 0, 1), ("server", 1, 1)]
    mu = 2 * math.sqrt(2)
    for row in rows:
        epsilon = row["exact_epsilon"]
        left, right = (math.erfc((epsilon / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
        assert left - math.exp(epsilon) * right == pytest.approx(1e-5, rel=1e-6)


def test_the_answer_about_secure_aggregation_is_that_of_a_run_that_has_it() -> None:
    """In rounds of all four clients the clock changes no sum, and equal weights are whole numbers of the field."""
    changes = {"protocol": {**ROUNDS, "weighting": "uniform"}, "seeds": [0]}
    clear = simulate(scenario(**changes))
    secure = {"kind": "pairwise", "threshold": 3}
    real = simulate(scenario(**{**changes, "protocol": {**changes["protocol"], "secure_aggregation": secure}}))
    told = answered(clear, "secure-aggregation").rows
    held = [row for row in client_rows(real.tables["ledger"]) if row["adversary"] == "server"]
    assert [row["client"] for row in told] == [row["client"] for row in held] == [0, 1, 2, 3]
    for answer, row in zip(told, held, strict=True):
        assert answer["releases"] == row["releases"] == 8
        for column in ("sigma", "sensitivity", "exact_epsilon", "rdp_epsilon"):
            assert answer[column] == pytest.approx(row[column], rel=1e-9), column
        # The closed form is that of Gaussian noise; of discrete noise Renyi accounting is proven.
        assert row["provable"] == row["rdp_epsilon"] > row["exact_epsilon"]
    with pytest.raises(RunError, match="its own rows of the server are the answer"):
        answered(real, "secure-aggregation")


def test_sums_never_tell_a_server_more_than_single_updates() -> None:
    of = run("sender")
    server = [row for row in client_rows(of.tables["ledger"]) if row["adversary"] == "server"]
    sums = answered(of, "secure-aggregation").rows
    assert [(row["seed"], row["client"]) for row in sums] == [(row["seed"], row["client"]) for row in server]
    assert all(one["exact_epsilon"] < row["exact_epsilon"] for one, row in zip(sums, server, strict=True))


@pytest.mark.parametrize(
    ("changes", "change", "reason"),
    [
        ({"defence": {"rule": {"kind": "median"}}}, "secure-aggregation", "needs single updates"),
        (
            {"privacy": {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 1.0, "noise_at": "server"}},
            "secure-aggregation",
            "the server added noise of its own",
        ),
        ({}, "tap.at=receiver", "only a tap on uplinks alone can be moved"),
        ({"world": {"tap": {"uplink": True, "downlink": True}}}, "tap.at=receiver", "only a tap on uplinks alone"),
        (
            {"world": {"tap": {"uplink": True, "packet_loss": 0.5}}},
            "tap.at=receiver",
            "world.tap.packet_loss must be 0",
        ),
        (
            {"world": {"tap": {"uplink": True}}, "privacy": {"kind": "none"}},
            "tap.at=receiver",
            "does not give the ledger's epsilon of client 0 in seed 0",
        ),
    ],
)
def test_a_run_that_does_not_decide_the_answer_is_refused(changes: dict[str, Any], change: str, reason: str) -> None:
    found = simulate(scenario(**changes, protocol={"kind": "sync", "rounds": 1}, seeds=[0]))
    with pytest.raises(RunError, match=reason):
        answered(found, change)


def test_an_unknown_change_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ScenarioError, match=r"must be one of secure-aggregation, tap\.at=sender, tap\.at=receiver, got"
    ):
        answered(run("sender"), "tap.at=link")
