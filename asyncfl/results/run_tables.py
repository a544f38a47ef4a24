"""Tables of rounds and of clients of a seed, and its summary."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.base.tables import ClientsTable, FurtherClientsColumns, PerClientTable, table_of
from asyncfl.defences.quality import COUNTS, detection_shares
from asyncfl.protocol.event_query import end_of, select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import DISCARDED, Tasks
from asyncfl.simulation.round_recorder import table_of_rounds
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.world.world import Power

CONTEXT = ("clients", "participants", "rounds", "smallest_samples", "exposures")
"""Facts about the noise calibration in the summary. The scenario and the learner tell the others."""


def rounds_table(run: SeedRun) -> pa.Table:
    """Return the table of rounds of a seed, see `table_of_rounds`."""
    return table_of_rounds(run.rounds)


def per_client_table(run: SeedRun) -> pa.Table | None:
    """Return the rows of `PerClientTable`; None if not asked for."""
    if not run.by_client:
        return None
    clients = len(run.sizes)
    measured = np.concatenate([found for _, found in run.by_client.values()])
    return table_of(
        {
            "seed": np.full(len(measured), run.seed),
            "version": np.repeat(list(run.by_client), clients),
            "time_s": np.repeat([time_s for time_s, _ in run.by_client.values()], clients),
            "client": np.tile(np.arange(clients), len(run.by_client)),
            "loss": measured[:, 0],
            "accuracy": measured[:, 1],
        },
        PerClientTable,
    )


def clients_table(run: SeedRun) -> pa.Table:
    """Return the rows of `ClientsTable`, with those of `FurtherClientsColumns` that the run has.

    `aggregated` counts fates, `used` those with a weight above 0 (Krum uses one update of a buffer). `malicious_`
    counts uploads of the client as an attacker: all, or with attackers drawn per round those of drawn tasks; `attacker`
    is whether it was drawn at least once. `train_loss` is that of its last trained task (NaN without one). With several
    domains, `domain` names that of each client; with budgets, `budget_spent_s` is when the budget was spent (NaN if it
    was not). If devices have a power, the columns of `energy` follow.
    """
    clients = len(run.sizes)

    tasks = Tasks.of(run.tasks)

    def count(chosen: Bools) -> Ints:
        return np.bincount(tasks.client[chosen], minlength=clients).astype(np.int64)

    def column(values: dict[int, Any], nothing: float) -> Any:
        found = np.full(clients, nothing)
        found[list(values)] = list(values.values())
        return found

    uploads, aggregated = ~np.isnan(tasks.uploaded_s), tasks.with_fate(Fate.AGGREGATED)
    used = aggregated & (tasks.weight > 0)
    of_attackers = np.isin(tasks.client, run.attackers) if run.drawn is None else np.isin(tasks.task, run.drawn)
    banned = select(run.events, kinds=[Kind.BANNED])["client"].to_numpy()
    train_loss = np.full(clients, np.nan)
    trained = run.uploads.at(run.uploads.rows[1])  # ordered by task, so that the last task of a client counts
    trained = trained.at(np.flatnonzero(trained.table["loss"].is_valid().to_numpy()))
    train_loss[trained.column("contribution.client")] = trained.column("loss")
    return table_of(
        {
            "seed": np.full(clients, run.seed, dtype=np.int64),
            "client": np.arange(clients, dtype=np.int64),
            **({"domain": list(run.domains)} if run.domains else {}),
            "samples": run.sizes.astype(np.int64),
            "attacker": np.isin(np.arange(clients), run.attackers),
            "banned": np.isin(np.arange(clients), banned),
            "tasks": count(tasks.task >= 0),
            "uploads": count(uploads),
            "malicious_uploads": count(uploads & of_attackers),
            "aggregated": count(aggregated),
            "used": count(used),
            "malicious_used": count(used & of_attackers),
            "flagged": count(tasks.with_fate(Fate.FLAGGED)),
            "discarded": count(tasks.with_fate(*DISCARDED)),
            "train_loss": train_loss,
            "exposures_up": column(run.traffic.overheard_up, 0),
            "exposures_down": column(run.traffic.overheard_down, 0),
            **({} if run.spent is None else {"budget_spent_s": column(run.spent, np.nan)}),
            **({} if run.power is None else energy(tasks, clients, run.power, end_of(run.events))),
        },
        ClientsTable,
        FurtherClientsColumns,
    )


def seed_summary(run: SeedRun) -> dict[str, Any]:
    """Return the summary of a seed: plain values, the same each time."""
    begun = sum(run.fates.values())
    last = run.rounds[-1] if run.rounds else {"version": 0, "time_s": 0.0}
    spent = [] if run.spent is None else [*run.spent.values()]
    stops = {"spent": len(spent), "first_s": min(spent, default=None), "last_s": max(spent, default=None)}
    return {
        "stopped": run.stopped,
        "diverged": run.diverged,
        "versions": last["version"],
        "virtual_s": last["time_s"],
        "fates": run.fates,
        "tasks": {
            "begun": begun,
            "trained": run.trained,
            "used": run.used,
            "trained_not_used": run.trained - run.used,
            "never_needed": begun - run.trained,
        },
        "exposures": {
            "assumed": None if run.context is None else run.context.exposures,
            "calibration": [] if run.resolved is None else list(run.resolved.calibration),
            "uplink_most_overheard_client": max(run.traffic.overheard_up.values(), default=0),
            "downlink_versions": len(run.traffic.overheard_versions),
        },
        "detection": _detection(run),
        **({} if run.spent is None else {"budgets": stops}),
        "context": None if run.context is None else {name: getattr(run.context, name) for name in CONTEXT},
        "data": run.data,
        "learner": run.learner,
        "notes": run.notes,
        **({"noted": run.noted} if run.noted else {}),
    }


def _detection(run: SeedRun) -> dict[str, Any]:
    """Return the detection counts summed over all versions, with the shares of them; None for a share of no update."""
    total = dict.fromkeys(COUNTS, 0)
    for row in run.rounds:
        for name in COUNTS:
            total[name] += row[name]
    shares = {name: None if math.isnan(share) else share for name, share in detection_shares(total).items()}
    return {**total, "attackers": len(run.attackers), **shares}


def energy(tasks: Tasks, clients: int, power: Power, end_s: float) -> dict[str, Floats]:
    """Compute (clients,) joules per column: `energy_compute_j`, `_send_j`, `_receive_j`, `_idle_j`.

    `tasks`: all of one seed, which ended at `end_s`. `power`: watts of a device by activity.
    """
    # A phase without an end lasted until the end of its task or of the run.
    left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)

    def seconds(began_s: Floats, ended_s: Floats) -> Floats:
        lasted_s = np.nan_to_num(np.where(np.isnan(ended_s), left_s, ended_s) - began_s)
        return np.bincount(tasks.client, weights=lasted_s, minlength=clients).astype(np.float64)

    compute_s = seconds(tasks.training_started_s, tasks.trained_s)
    send_s = seconds(tasks.upload_started_s, tasks.uploaded_s)
    receive_s = seconds(tasks.download_started_s, tasks.downloaded_s)
    idle_s = end_s - compute_s - send_s - receive_s
    return {
        "energy_compute_j": power.compute_w * compute_s,
        "energy_send_j": power.send_w * send_s,
        "energy_receive_j": power.receive_w * receive_s,
        # Rounding aside it is never negative: a client is at one task at a time.
        "energy_idle_j": power.idle_w * np.maximum(idle_s, 0.0),
    }
