"""The ledger of a run by adversary."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.base.tables import LedgerTable, schema_of
from asyncfl.privacy.ledger.adversary_summaries import (
    DECILES,
    client_rows,
    coalition_notes,
    conventions,
    deciles,
    most_exposed,
    summaries,
)

INF = math.inf


def table(*rows: dict[str, Any]) -> pa.Table:
    """A ledger of rows about clients, of seed 0 and without a measurement unless they say otherwise."""
    common: dict[str, Any] = {
        **dict.fromkeys(("sigma", "sensitivity", "noise_multiplier", "squared_mu", "mu", "rho"), 0.0),
        **dict.fromkeys(("naive_epsilon", "basic_epsilon", "advanced_epsilon", "rdp_epsilon"), 0.0),
        "seed": 0,
        "holder": "client",
        "trusts": "clients",
        "distribution": "gaussian",
        "assumed_releases": 1,
        "unit": "sample",
        "neighbours": "replace",
        "status": "proven",
        "claimed_epsilon": INF,
        "delta": 1e-5,
        "measured": None,
        "measured_by_twins": None,
        "measured_by_canaries": None,
        "claim_holds": None,
        "flags": "",
    }
    return pa.Table.from_pylist([common | row for row in rows], schema=schema_of(LedgerTable))


def row(client: int, exact: float, adversary: str = "server", **more: Any) -> dict[str, Any]:
    fields = {"client": client, "adversary": adversary, "exact_epsilon": exact, "provable": exact, "releases": 1}
    return fields | more


def test_a_summary_has_the_most_exposed_client_and_the_spread_over_clients() -> None:
    claim: dict[str, Any] = {"claimed_epsilon": 3.0, "assumed_releases": 2}
    rows = client_rows(
        table(
            row(0, 1.0, **claim, claim_holds=True),
            row(1, 4.0, **claim, releases=3, claim_holds=False, flags="sensitivity heuristic; weights depend on data"),
            row(2, 2.0, **claim, releases=2, claim_holds=True, measured=1.5, flags="sensitivity heuristic"),
            row(-1, 9.0, holder="model"),
        )
    )
    (found,) = summaries(rows)
    assert (found.client, found.releases, found.clients) == (1, 3, 3)
    assert (found.exact, found.proven, found.measured) == (4.0, 4.0, 1.5)
    assert (found.claimed, found.covers, found.broken) == (3.0, 2, 1)
    assert (found.least_exact, found.median_exact, found.median_releases, found.infinite) == (1.0, 2.0, 2.0, 0.0)
    assert found.flags == {"sensitivity heuristic": 2, "weights depend on data": 1}


def test_an_infinite_claim_claims_nothing_and_infinite_epsilons_are_a_share() -> None:
    (found,) = summaries(client_rows(table(row(0, 0.5), row(1, INF), row(2, INF), row(3, 0.5))))
    assert (found.claimed, found.covers, found.measured) == (None, None, None)
    assert (found.client, found.exact, found.infinite, found.median_exact) == (1, INF, 0.5, INF)


def test_deciles_are_numpys_where_all_epsilons_are_finite() -> None:
    values = [5.0, 1.0, 3.0, 8.0]
    rows = client_rows(table(*(row(client, value) for client, value in enumerate(values))))
    assert deciles(rows, "exact") == pytest.approx(np.quantile(values, np.array(DECILES) / 100))
    assert deciles(rows, "measured") is None
    bare = client_rows(table(row(0, 1.0), row(1, INF), row(2, INF)))
    assert deciles(bare, "exact") == [1.0, *[INF] * 10]


def test_equal_clients_are_listed_in_their_order_and_a_larger_proof_first() -> None:
    rows = client_rows(table(row(0, 1.0), row(1, 2.0), row(2, 2.0, provable=INF), row(3, 2.0)))
    assert [one["client"] for one in most_exposed(rows)] == [2, 1, 3, 0]
    assert [one["client"] for one in most_exposed(rows, 2)] == [2, 1]


def test_a_seed_is_chosen() -> None:
    rows = client_rows(table(row(0, 1.0), row(0, 7.0, seed=3)), seed=3)
    assert [one["exact_epsilon"] for one in rows] == [7.0]


def test_a_coalition_below_the_public_is_explained() -> None:
    below = client_rows(
        table(row(0, 2.0, "curious"), row(1, 1.0, "curious"), row(0, 2.0, "public"), row(1, 3.0, "public"))
    )
    (note,) = coalition_notes(below)
    assert note.startswith("curious is below public for 1 of 2 clients: a coalition holds the models that its members")
    member = client_rows(table(row(0, 2.0, "curious"), row(0, 2.0, "public"), row(1, 5.0, "public")))
    (note,) = coalition_notes(member)
    assert "the client of which public knows most, 1, is a member of the coalition" in note
    above = client_rows(table(row(0, 6.0, "curious"), row(0, 2.0, "public"), row(1, 5.0, "public")))
    assert coalition_notes(above) == []
    assert coalition_notes(client_rows(table(row(0, 2.0, "public")))) == []


def test_delta_and_neighbours_are_named_once_or_by_adversary() -> None:
    same = client_rows(table(row(0, 1.0), row(0, 1.0, "public")))
    assert conventions(same) == ["Epsilons are at delta 1e-05 for one sample replaced."]
    apart = client_rows(table(row(0, 1.0), row(0, 1.0, "public", delta=0.01)))
    assert conventions(apart) == [
        "Epsilons of server are at delta 1e-05 for one sample replaced.",
        "Epsilons of public are at delta 0.01 for one sample replaced.",
    ]
    assert conventions(client_rows(table(row(0, INF, status="none")))) == []
