"""The ledger of a seed: what an eavesdropper and the server hold after the run, and what that is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.privacy.ledger import COLUMNS, ledger
from asyncfl.scenario import Scenario
from asyncfl.simulation.seed import SeedRun
from asyncfl.trace import Kind
from asyncfl.trace.query import select

TYPES = {
    **dict.fromkeys(COLUMNS, pa.float64()),
    **dict.fromkeys(("client", "releases", "assumed_releases"), pa.int64()),
    **dict.fromkeys(("holder", "adversary", "neighbours", "status"), pa.string()),
    "claim_holds": pa.bool_(),
}


def ledger_table(scenario: Scenario, run: SeedRun) -> pa.Table:
    """The ledger as a table, with the seed in front; see `asyncfl.privacy.ledger.COLUMNS`.

    The eavesdropper holds what the tap caught. The server holds every update that it collected, and all its models.
    `both` are the two of them together: an update that both hold is one release.
    """
    if run.context is None:
        raise ValueError("a timeline without training releases nothing")
    clip_norms = [upload["clip_norm"] for upload in run.uploads if upload["clip_norm"] is not None]
    overheard = np.zeros(len(run.sizes), dtype=np.int64)
    for client, count in run.traffic.overheard_up.items():
        overheard[client] = count
    collected = np.bincount([upload["client"] for upload in run.uploads], minlength=len(run.sizes))
    together = overheard + collected - _held_by_both(run)
    models = _models(run, None)
    columns = ledger(
        scenario.privacy,
        run.context,
        samples=run.sizes,
        uploads={"eavesdropper": overheard, "server": collected, "both": together},
        models={"eavesdropper": _models(run, run.traffic.overheard_versions), "server": models, "both": models},
        clip_norm=clip_norms[-1] if clip_norms else None,
    )
    rows = len(columns["client"])
    arrays = {"seed": pa.array(np.full(rows, run.seed), pa.int64())}
    arrays |= {name: pa.array(column.tolist(), TYPES[name]) for name, column in columns.items()}
    return pa.table(arrays)


def _held_by_both(run: SeedRun) -> NDArray[np.int64]:
    """(clients,) updates of each client that the tap caught and the server collected."""
    caught = select(run.events, kinds=[Kind.OVERHEARD]).filter(pc.field("detail").cast(pa.string()) == "up")
    collected = {upload["task"] for upload in run.uploads}
    pairs = zip(caught["task"].to_pylist(), caught["client"].to_pylist(), strict=True)
    clients = [client for task, client in pairs if task in collected]
    return np.bincount(np.array(clients, dtype=np.int64), minlength=len(run.sizes))


def _models(run: SeedRun, held: set[int] | None) -> NDArray[np.int64]:
    """Number of updates in each published model that is held (None: all). Version 0 depends on nobody's data."""
    rows: list[dict[str, Any]] = [row for row in run.rounds if row["version"] > 0]
    return np.array([row["participants"] for row in rows if held is None or row["version"] in held], dtype=np.int64)
