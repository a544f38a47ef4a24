"""Bounds from canaries in the ledger: which row, at which delta, beside those of neighbouring data sets."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.api import execute
from asyncfl.audit.canaries import FOUND, CanaryAudit, audit_canaries, enter_bounds, save
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.neighbours.audit_run import audit_neighbours, save_run
from asyncfl.data.canaries import Canaries
from asyncfl.evaluation import TwinAudit
from asyncfl.scenario import Scenario

NOISED = {"privacy": {"kind": "local_gaussian", "epsilon": 50, "clip_norm": 0.5}}


@pytest.fixture
def finished(tmp_path: Path, tiny: dict[str, Any]) -> FinishedRun:
    training = {"lr": 0.1, "batch_size": 10, "epochs": 5, "gradient_clip": 0.5}
    return FinishedRun.load(execute(Scenario.read({**tiny, "training": training, **NOISED}), tmp_path / "run"))


def audit_of(scenario: Scenario, owners: tuple[int, ...] = (0, 1), **fields: Any) -> CanaryAudit:
    one = dict.fromkeys(FOUND.names) | {
        "seed": 0,
        "adversary": "server",
        "unit": "sample",
        "delta": 1e-5,
        "measured": 2.5,
        "most": 4.0,
        "held": 2,
    }
    table = pa.Table.from_pylist([one | fields], schema=FOUND)
    scores = pa.table({"seed": [0] * len(owners), "client": list(owners)})
    return CanaryAudit(scenario, table, scores)


def measured(ledger: pa.Table) -> list[tuple[str, int, str, float]]:
    names = ("holder", "client", "adversary", "measured_by_canaries")
    rows = ledger.filter(pc.is_valid(ledger["measured_by_canaries"])).select(names).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_the_bound_is_entered_for_the_canary_client_with_the_largest_epsilon(finished: FinishedRun) -> None:
    run = finished.run
    server = run.ledger[(run.ledger["adversary"] == "server") & (run.ledger["holder"] == "client")]
    owners = tuple(server.nsmallest(2, "provable", keep="first")["client"])
    worst = max(owners, key=lambda client: (server.set_index("client").loc[client, "provable"], -client))
    assert enter_bounds(run, audit_of(run.scenario, owners)) == 2
    assert measured(run.tables["ledger"]) == [("client", worst, "server", 2.5), ("model", -1, "server", 2.5)]


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, 2),
        ({"delta": 1e-3}, 2),
        ({"delta": 1e-6}, 0),
        ({"unit": "client"}, 0),
        ({"held": 0, "most": 0.0, "measured": 0.0}, 0),
        ({"most": 0.0, "measured": 0.0}, 0),
        ({"measured": 0.0}, 2),
    ],
)
def test_a_bound_is_entered_only_where_it_holds(finished: FinishedRun, fields: dict[str, Any], rows: int) -> None:
    assert enter_bounds(finished.run, audit_of(finished.run.scenario, **fields)) == rows
    assert len(measured(finished.run.tables["ledger"])) == rows


def test_sample_canaries_bound_no_zero_out_row(tmp_path: Path, tiny: dict[str, Any]) -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5}
    for neighbours, of_samples in (("zero_out", 0), ("replace", 2)):
        scenario = Scenario.read({**tiny, "privacy": {**privacy, "neighbours": neighbours}})
        run = FinishedRun.load(execute(scenario, tmp_path / neighbours)).run
        assert enter_bounds(run, audit_of(scenario)) == of_samples
        assert enter_bounds(run, audit_of(scenario, unit="client")) == 2


def test_bounds_of_both_audits_are_kept_side_by_side(finished: FinishedRun) -> None:
    save_run(finished, audit_neighbours(finished, TwinAudit(clients=1, neighbours=("brightest",), twins=4), (0,)))
    by_twins = FinishedRun.load(finished.folder).run.tables["ledger"]
    found = audit_canaries(finished, Canaries(count=100), (0,))
    save(finished, found)
    enter_bounds(finished.run, found)
    save_run(finished, finished.run)

    again = FinishedRun.load(finished.folder)
    ledger = again.run.ledger
    assert (finished.folder / "audit" / "attacks.parquet").exists()
    assert measured(again.run.tables["ledger"]) != []
    assert ledger["measured_by_twins"].equals(by_twins.to_pandas()["measured_by_twins"])
    largest = ledger[["measured_by_twins", "measured_by_canaries"]].max(axis=1)
    assert largest.equals(ledger["measured"].rename(None))
    assert any("measured by twins at least" in sentence for sentence in again.run.summary["privacy"])
    # Another audit with neighbours keeps the bounds of the canaries.
    once_more = audit_neighbours(again, TwinAudit(clients=1, neighbours=("brightest",), twins=4), (0,))
    assert once_more.tables["ledger"].equals(again.run.tables["ledger"])
    assert not math.isnan(once_more.ledger["measured_by_canaries"].max())
