"""Hypothetical rows of a ledger: secure aggregation, and a tap at another place, as far as a finished run decides them.

Both answers follow from the rows of the run. Where these do not decide, RunError names what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.flags import LOSSES, NO_NOISE, PAYLOADS, REJECTION, SCORES
from asyncfl.privacy.ledger.adversary_summaries import Row, flags_of_row
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import holdings
from asyncfl.results.run_files import is_read_in_part
from asyncfl.scenario import has_fixed_weights

if TYPE_CHECKING:
    from asyncfl.results.storage import Run

SECURE_AGGREGATION = "secure-aggregation"
PLACES = ("sender", "receiver")
"""Places of a tap whose holdings follow from a run; half way it depends on where each lost packet was lost."""
CHANGES = (SECURE_AGGREGATION, *(f"tap.at={place}" for place in PLACES))
"""Changes that can be asked for."""


@dataclass(frozen=True)
class Hypothesis:
    """Rows of one adversary under a change that did not happen."""

    adversary: str
    rows: list[Row]  # one for each row of the adversary about a client, in the order of the ledger
    assumption: str


def hypothesis(run: Run, rows: Sequence[Row], change: str) -> Hypothesis:
    """Return the rows of the adversary that a `change` concerns, one of `CHANGES`; `rows`: about clients, of all
    adversaries. Raises ScenarioError for another change, and RunError where the run does not decide the answer."""
    if change not in CHANGES:
        link = " (link: the run does not say where lost packets were lost)" if change == "tap.at=link" else ""
        raise ScenarioError([Fault("--what-if", f"must be one of {', '.join(CHANGES)}, got {change!r}{link}")])
    if is_read_in_part(run.scenario):
        raise RunError(
            f"--what-if {change}: the run's scenario names code of its owner, which is not imported, or a removed kind"
        )
    if change == SECURE_AGGREGATION:
        return _sums_only(run, rows)
    return _tap_at(run, rows, change.removeprefix("tap.at="))


def _sums_only(run: Run, rows: Sequence[Row]) -> Hypothesis:
    """Return the server's rows if it held sums of updates only: those of an adversary that holds all models.

    Each model differs from the one before by the sum of its buffer's updates with their noise, so the server knows as
    much as the public if it adds no noise of its own.
    """
    scenario, server = run.scenario, [row for row in rows if row["adversary"] == "server"]
    public = {(row["seed"], row["client"]): row for row in rows if row["adversary"] == "public"}
    single = [
        flag for flag in (SCORES, LOSSES, PAYLOADS, REJECTION) if any(flag in flags_of_row(row) for row in server)
    ]
    own_noise = run.tables["rounds"]["sigma_d"].to_numpy()
    reason = None
    if scenario.protocol.secure_aggregation is not None:
        reason = "the run has secure aggregation: its own rows of the server are the answer"
    elif not has_fixed_weights(scenario.protocol, scenario.defence, scenario.algorithm):
        reason = "the rule, detector or algorithm of the run needs single updates, of which sums tell nothing"
    elif single:
        reason = f"clients sent the server more than updates, or one was rejected by its values ({', '.join(single)})"
    elif np.isnan(own_noise).any():
        reason = "rounds.parquet does not tell the server's noise in each version (sigma_d)"
    elif own_noise.any():
        reason = "the server added noise of its own, and no row of the run leaves it out of the sums"
    elif any((row["seed"], row["client"]) not in public for row in server):
        reason = "the ledger has no row of public for each client"
    if reason is not None:
        raise RunError(f"--what-if {SECURE_AGGREGATION} cannot be answered from this run: {reason}")
    copied = ("seed", "client", "adversary", "trusts")
    even = _weigh_alike(run)
    found = [
        (of := public[row["seed"], row["client"]])
        | {name: row[name] for name in copied}
        # Noise in a field is discrete. Of it an even sum is proven by Renyi accounting, an uneven one only as far as
        # the client's own noise goes (`sums_of_noises`).
        | {"provable": max(of["provable"], of["rdp_epsilon"]) if even else row["provable"]}
        for row in server
    ]
    assumption = (
        "the server receives the weighted sum of each buffer's updates and no single update; clients, times and "
        "weights are those of the run. Its rows are then those of public, since the server added no noise of its own"
    )
    return Hypothesis("server", [row | {"measured": None} for row in found], assumption)


def _weigh_alike(run: Run) -> bool:
    """Return whether all updates of each version have one weight."""
    tasks = run.tables["tasks"].select(["seed", "making", "weight"]).to_pandas()
    weights = tasks[tasks["weight"] > 0].groupby(["seed", "making"])["weight"]
    return bool(np.allclose(weights.min(), weights.max(), rtol=1e-9, atol=0))


def _tap_at(run: Run, rows: Sequence[Row], place: str) -> Hypothesis:
    """Return the eavesdropper's rows if the tap sat at another `place` of the uplinks and missed no packet."""
    tap, heard = run.scenario.world.tap, [row for row in rows if row["adversary"] == "eavesdropper"]
    change = f"--what-if tap.at={place} cannot be answered from this run: "
    if run.scenario.protocol.secure_aggregation is not None:
        raise RunError(f"{change}its uploads were masked, and tell a tap nothing at any place")
    if not tap.uplink or tap.downlink or tap.scoring:
        raise RunError(f"{change}only a tap on uplinks alone can be moved (world.tap)")
    if tap.packet_loss > 0:
        raise RunError(f"{change}world.tap.packet_loss must be 0, since the run has no row of each packet")
    found: list[Row] = []
    for seed in dict.fromkeys(row["seed"] for row in heard):
        of_seed = [row for row in heard if row["seed"] == seed]
        found += _moved(run, of_seed, seed, place, change)
    partial = "one of several packets that was lost or" if place == "receiver" else "one that was"
    assumption = (
        f"the tap sits at the {place} of each uplink and misses no packet; uploads of which any packet reached that "
        f"place count, and so does {partial} under way at the end, which bounds epsilon from above. Noise, times "
        "and losses are those of the run"
    )
    return Hypothesis("eavesdropper", found, assumption)


def _moved(run: Run, heard: Sequence[Row], seed: int, place: str, change: str) -> list[Row]:
    """Return the rows of one seed with the uploads that passed the tap's new place.

    At either place the tap has every upload that arrived, and so all that is in any version: models tell nothing more.
    """
    table = run.tables["tasks"].filter(pc.equal(run.tables["tasks"]["seed"], seed)).sort_by("task")
    tasks = Tasks.of(table)
    held = holdings(tasks, {}, packet_bytes=run.scenario.world.uplink.mtu_bytes)
    before = np.isin(tasks.task, list(held["eavesdropper"].uploads))
    if place == "receiver":
        after = np.isin(tasks.task, list(held["server"].uploads))
    else:
        # The bytes of an upload that was under way at the end of the run are not in its row.
        sent = (tasks.bytes_up > 0) | np.isnan(tasks.left_s)
        after = before | (sent & (tasks.upload_started_s <= tasks.end_s))
    squares = _squared_mus(table, tasks)
    found = []
    for row in heard:
        own = tasks.client == row["client"]
        told, moved = (_epsilon(squares[own & chosen], row) for chosen in (before, after))
        # The sum over uploads must give the run's own epsilon before it may give another one.
        if not np.isclose(told, row["exact_epsilon"], rtol=1e-6, atol=1e-9, equal_nan=False):
            raise RunError(
                f"{change}the noise of uploads in tasks.parquet does not give the ledger's epsilon of client "
                f"{row['client']} in seed {seed} (it is known for Gaussian noise of honest, trained updates alone)"
            )
        if np.isnan(moved):
            raise RunError(f"{change}tasks.parquet lacks the noise of an update of client {row['client']}")
        proven = moved if row["status"] == "proven" and row["provable"] == row["exact_epsilon"] else None
        changed = {"releases": int((own & after).sum()), "exact_epsilon": moved, "provable": proven}
        found.append(row | changed | {"measured": None, "claim_holds": None})
    return found


def _squared_mus(table: Any, tasks: Tasks) -> np.ndarray:
    """Return (n,) squared ratio of sensitivity to noise of each upload; NaN: unknown, or no sum of Gaussian noise.

    An update that was not trained has the ratio of its client's others if these are the same.
    """
    if not {*_NOISE, "distribution", "attacked"} <= {*table.column_names}:
        # The tasks of a run of an earlier version follow from its events, which have no noise.
        return np.full(len(tasks), np.nan)
    columns = {name: table[name].to_numpy(zero_copy_only=False).astype(float) for name in _NOISE}
    gaussian = np.array([one == "gaussian" for one in table["distribution"].to_pylist()])
    honest = ~table["attacked"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    once = (columns["draws"] == 1) & (columns["sampling_rate"] == 1) & gaussian & honest
    usable = once & (columns["noise_std"] > 0) & np.isfinite(columns["sensitivity"])
    squares = np.full(len(tasks), np.nan)
    squares[usable] = (columns["sensitivity"][usable] / columns["noise_std"][usable]) ** 2
    untrained = np.isnan(columns["noise_std"])
    for client in np.unique(tasks.client[untrained]):
        others = np.unique(squares[(tasks.client == client) & usable])
        if len(others) == 1:
            squares[untrained & (tasks.client == client)] = others[0]
    return squares


_NOISE = ("noise_std", "sensitivity", "draws", "sampling_rate")


def _epsilon(squares: np.ndarray, row: Row) -> float:
    """Return the exact epsilon of releases; NaN where the noise of one is unknown or the row has a bare release."""
    if NO_NOISE in flags_of_row(row) or np.isnan(squares).any():
        return float("nan")
    return float(exact_epsilon(float(squares.sum()), row["delta"])) if len(squares) else 0.0
