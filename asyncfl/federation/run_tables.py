"""Tables of rounds and of clients of a seed, and its summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.base.columns import PerClientTable, schema_of
from asyncfl.defences.quality import COUNTS
from asyncfl.federation.round_recorder import table_of_rounds
from asyncfl.federation.seed_run import SeedRun
from asyncfl.trace.tasks import tasks_of
from asyncfl.world.world import Power


def rounds_table(run: SeedRun) -> pa.Table:
    """Return the table of rounds of a seed, see `table_of_rounds`."""
    return table_of_rounds(run.rounds)


def per_client_table(run: SeedRun) -> pa.Table | None:
    """Return the rows of `PerClientTable`; None if not asked for."""
    if not run.by_client:
        return None
    clients = len(run.sizes)
    measured = np.concatenate([found for _, found in run.by_client.values()])
    return pa.table(
        {
            "seed": np.full(len(measured), run.seed),
            "version": np.repeat(list(run.by_client), clients),
            "time_s": np.repeat([time_s for time_s, _ in run.by_client.values()], clients),
            "client": np.tile(np.arange(clients), len(run.by_client)),
            "loss": measured[:, 0],
            "accuracy": measured[:, 1],
        },
        schema=schema_of(PerClientTable),
    )


def clients_table(run: SeedRun) -> pa.Table:
    """Return one row per client: its samples, its tasks and their fates, and how often it was overheard.

    `aggregated` counts fates, `used` those with a weight above 0 (Krum uses one update of a buffer). `malicious_`
    counts uploads of the client as an attacker: all, or with attackers drawn per round those of drawn tasks; `attacker`
    is whether it was drawn at least once. `train_loss` is that of its last trained task (NaN without one). With several
    domains, `domain` names that of each client; with budgets, `budget_spent_s` is when the budget was spent (NaN if it
    was not). If devices have a power, the columns of `energy` follow.
    """
    clients = len(run.sizes)

    def events(kind: str) -> pa.Table:
        return run.events.filter(pc.equal(run.events["kind"].cast(pa.string()), kind))

    def number(chosen: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.bincount(chosen["client"].to_numpy(), minlength=clients).astype(np.int64)

    def count(kind: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return number(events(kind))

    def theirs(chosen: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
        of, values = ("client", run.attackers) if run.drawn is None else ("task", run.drawn)
        return number(chosen.filter(np.isin(chosen[of].to_numpy(), values)))

    uploads, aggregated = events("uploaded"), events("aggregated")
    used = aggregated.filter(pc.greater(aggregated["weight"], 0.0))

    def overheard(held: dict[int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        column = np.zeros(clients, dtype=np.int64)
        column[list(held)] = list(held.values())
        return column

    train_loss = np.full(clients, np.nan)
    trained = run.uploads.at(run.uploads.rows[1])  # ordered by task, so that the last task of a client counts
    trained = trained.at(np.flatnonzero(trained.table["loss"].is_valid().to_numpy()))
    train_loss[trained.column("contribution.client")] = trained.column("loss")

    spent_s = np.full(clients, np.nan)
    for client, time_s in (run.spent or {}).items():
        spent_s[client] = time_s

    return pa.table(
        {
            "seed": np.full(clients, run.seed, dtype=np.int64),
            "client": np.arange(clients, dtype=np.int64),
            **({"domain": list(run.domains)} if run.domains else {}),
            "samples": run.sizes.astype(np.int64),
            "attacker": np.isin(np.arange(clients), run.attackers),
            "banned": count("banned") > 0,
            "tasks": count("dispatched"),
            "uploads": number(uploads),
            "malicious_uploads": theirs(uploads),
            "aggregated": number(aggregated),
            "used": number(used),
            "malicious_used": theirs(used),
            "flagged": count("flagged"),
            "discarded": count("discarded"),
            "train_loss": train_loss,
            "exposures_up": overheard(run.traffic.overheard_up),
            "exposures_down": overheard(run.traffic.overheard_down),
            **({} if run.spent is None else {"budget_spent_s": spent_s}),
            **({} if run.power is None else energy(run.events, clients, run.power)),
        }
    )


CONTEXT = ("clients", "participants", "rounds", "smallest_samples", "exposures")
"""Facts about the noise calibration in the summary. The scenario and the learner tell the others."""


def seed_summary(run: SeedRun) -> dict[str, Any]:
    """Return the summary of a seed: plain values, the same each time."""
    begun = sum(run.fates.values())
    up = run.traffic.overheard_up
    return {
        "stopped": run.stopped,
        "diverged": run.diverged,
        "versions": run.rounds[-1]["version"] if run.rounds else 0,
        "virtual_s": run.rounds[-1]["time_s"] if run.rounds else 0.0,
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
            "uplink_most_overheard_client": max(up.values(), default=0),
            "downlink_versions": len(run.traffic.overheard_versions),
        },
        "detection": _detection(run),
        **({} if run.spent is None else {"budgets": _budgets(run.spent)}),
        "context": None if run.context is None else {name: getattr(run.context, name) for name in CONTEXT},
        "data": run.data,
        "learner": run.learner,
        "notes": run.notes,
        **({"noted": run.noted} if run.noted else {}),
    }


def _budgets(spent: dict[int, float]) -> dict[str, Any]:
    """Return how many clients have spent their budgets, and when the first and the last had; None if none has."""
    return {
        "spent": len(spent),
        "first_s": min(spent.values(), default=None),
        "last_s": max(spent.values(), default=None),
    }


def _detection(run: SeedRun) -> dict[str, Any]:
    """Return the detection counts summed over all versions, with precision and recall: None without accused or
    malicious updates."""
    total = dict.fromkeys(COUNTS, 0)
    for row in run.rounds:
        for name in COUNTS:
            total[name] += row[name]
    accused = total["true_positives"] + total["false_positives"]
    malicious = total["true_positives"] + total["false_negatives"]
    return {
        **total,
        "attackers": len(run.attackers),
        "precision": total["true_positives"] / accused if accused else None,
        "recall": total["true_positives"] / malicious if malicious else None,
    }


Joules = NDArray[np.float64]


def energy(events: pa.Table, clients: int, power: Power) -> dict[str, Joules]:
    """Compute (clients,) joules per column: `energy_compute_j`, `_send_j`, `_receive_j`, `_idle_j`.

    `events`: the whole trace of one seed. `power`: watts of a device by activity.
    """
    tasks = tasks_of(events)
    # A phase without an end lasted until the end of its task or of the run.
    left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)

    def seconds(began_s: NDArray[np.float64], ended_s: NDArray[np.float64]) -> Joules:
        lasted_s = np.nan_to_num(np.where(np.isnan(ended_s), left_s, ended_s) - began_s)
        return np.bincount(tasks.client, weights=lasted_s, minlength=clients).astype(np.float64)

    compute_s = seconds(tasks.training_started_s, tasks.trained_s)
    send_s = seconds(tasks.upload_started_s, tasks.uploaded_s)
    receive_s = seconds(tasks.download_started_s, tasks.downloaded_s)
    times_s = events["time_s"].to_numpy()
    idle_s = float(times_s.max(initial=0.0)) - compute_s - send_s - receive_s
    return {
        "energy_compute_j": power.compute_w * compute_s,
        "energy_send_j": power.send_w * send_s,
        "energy_receive_j": power.receive_w * receive_s,
        # Rounding aside it is never negative: a client is at one task at a time.
        "energy_idle_j": power.idle_w * np.maximum(idle_s, 0.0),
    }
