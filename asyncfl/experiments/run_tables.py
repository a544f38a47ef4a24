"""The tables of an experiment, as pandas frames, from the run folders of its cells.

`rounds`  per seed and version: axis columns, seed, round, time_s and all measured columns
`curves`  long: axis columns, round, metric, mean, low, high (95 % interval over seeds), seeds, diverged;
          see `over_seeds`
`ends`    per seed: the last version's values and the counts of the whole run (see `whole_run`)
`final`   long: axis columns, metric, mean, low, high, seeds, diverged
`cells`   per cell: axis columns, run (hash), data source, whether it is the original, provenance, notes,
          and what each adversary learns, in a sentence each (privacy)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.errors import RunError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.experiments.target import Target

HIGH = 0.95
"""Share of the values that lie below the `high` quantile."""
HALF = 0.5 - 1e-9
"""Of a buffer's weight, but for rounding."""
COUNTS = ("judged", "true_positives", "false_positives", "false_negatives")


def whole_run(rounds: pd.DataFrame, clients: pd.DataFrame, summary: dict[str, Any]) -> pd.DataFrame:
    """Return a row per seed with the columns of `WholeRunColumns`: clock, exposure, staleness, robustness, detection.

    Also `staleness_mean` over all aggregated updates, `staleness_max`, and where verdicts were given their counts,
    `precision` (NaN where nobody was accused) and `recall` (NaN where nothing malicious came).
    """
    by_seed = clients.groupby("seed")
    counted = pd.DataFrame(index=by_seed.size().index)
    counted.index.name = "seed"
    for column in ("exposures_up", "exposures_down"):
        counted[f"{column}_max"] = by_seed[column].max()
        counted[f"{column}_mean"] = by_seed[column].mean()
    for column, share in (("uploads", "attacker_upload_share"), ("used", "attacker_aggregated_share")):
        if {"attacker", column} <= set(clients):
            theirs = clients.get(f"malicious_{column}", clients[column].where(clients["attacker"], 0))
            counted[share] = theirs.groupby(clients["seed"]).sum() / by_seed[column].sum().clip(lower=1)
    counted["exposures_up_median"] = by_seed["exposures_up"].median()
    if {"staleness_mean", "participants"} <= set(rounds):
        counted = counted.join(_staleness(rounds))
    if "aggregate_error" in rounds:
        counted = counted.join(_robustness(rounds))
    if "time_s" in rounds:
        counted = counted.join(_round_times(rounds))
    said = [summary.get("seeds", {}).get(str(seed), {}) for seed in counted.index]
    told = pd.DataFrame([{**_heard(of_seed), **_detected(of_seed)} for of_seed in said], index=counted.index)
    return counted.join(told.astype(np.float64)).reset_index()


def _staleness(rounds: pd.DataFrame) -> pd.DataFrame:
    """Mean over all aggregated updates (each version counts by its updates), and the largest."""
    known = rounds[rounds["staleness_mean"].notna() & (rounds["participants"] > 0)]
    total = (known["staleness_mean"] * known["participants"]).groupby(known["seed"]).sum()
    made = pd.DataFrame({"staleness_mean": total / known.groupby("seed")["participants"].sum()})
    if "staleness_max" in rounds:
        made["staleness_max"] = known.groupby("seed")["staleness_max"].max().astype(float)
    by_seed = known.groupby("seed")["staleness_mean"]
    made["staleness_median"], made["staleness_high"] = by_seed.median(), by_seed.quantile(HIGH)
    return made


def _robustness(rounds: pd.DataFrame) -> pd.DataFrame:
    """Errors of aggregates over the spread of the honest updates, and the least that a rule without identities can
    guarantee, see `asyncfl.federation.aggregate_errors`; nothing where attackers have half of the buffer's weight."""
    made = rounds[rounds["attackers_weight"].notna()]
    held = made[made["attackers_weight"] < HALF]
    share = held["attackers_weight"]
    least = share / (1 - 2 * share) * held["honest_spread"]
    spread = held["honest_spread"].groupby(held["seed"]).sum()
    spread = spread.where(spread > 0)  # one honest update in each buffer disagrees with nobody
    return pd.DataFrame(
        {
            "kappa": held["aggregate_error"].groupby(held["seed"]).sum() / spread,
            "kappa_bound": least.groupby(held["seed"]).sum() / spread,
            "outnumbered_share": (made["attackers_weight"] >= HALF).groupby(made["seed"]).mean(),
        }
    )


def _round_times(rounds: pd.DataFrame) -> pd.DataFrame:
    """Seconds from each publication to the next."""
    gaps = rounds.groupby("seed")["time_s"].diff().dropna().groupby(rounds["seed"])
    return pd.DataFrame(
        {"round_s_mean": gaps.mean(), "round_s_median": gaps.median(), "round_s_high": gaps.quantile(HIGH)}
    )


def _heard(said: dict[str, Any]) -> dict[str, float]:
    exposures, versions = said.get("exposures", {}), said.get("versions", 0)
    return {
        "versions": versions,
        "exposures_assumed": exposures.get("assumed"),
        "overheard_down_share": exposures.get("downlink_versions", 0) / max(1, versions),
    }


def _detected(said: dict[str, Any]) -> dict[str, float]:
    detection = said.get("detection")
    if detection is None:
        return {}
    counts = {name: float(detection[name]) for name in COUNTS}
    honest = counts["judged"] - counts["true_positives"] - counts["false_negatives"]
    return {
        **counts,
        "precision": detection["precision"],
        "recall": detection["recall"],
        "honest_flagged_share": counts["false_positives"] / honest if honest else np.nan,
        "honest_banned": detection["honest_bans"],
        "malicious_banned": detection["malicious_bans"],
        "malicious_banned_share": detection["malicious_bans"] / detection["attackers"]
        if detection["attackers"]
        else np.nan,
    }


EVALUATED = ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "attack_success")
"""Columns that are not measured at every version."""
BY_DOMAIN = "test_accuracy_"
"""Beginning of further such columns, of federations of several domains."""

SPENT = {
    "epsilon_exact_median": ("median", "exact"),
    "epsilon_claimed_model": ("model", "claimed"),
    "epsilon_basic_model": ("model", "basic"),
    "epsilon_advanced_model": ("model", "advanced"),
    "epsilon_rdp_model": ("model", "rdp"),
    "epsilon_exact_model": ("model", "exact"),
}
"""Column -> holder and accountant: of clients what the server holds, of the models what the public does, who holds
nothing else; see `asyncfl.privacy.ledger.accounts.COLUMNS`."""
HELD_BY = {"model": "public"}
"""Holder -> adversary, where it is not the server."""


AUDITED = {
    "epsilon_measured_max": ("client", "server", "epsilon"),
    "epsilon_measured_overheard_max": ("client", "eavesdropper", "epsilon"),
    "epsilon_measured_model": ("model", "server", "epsilon"),
    "epsilon_measured_upload": ("client", "server", "epsilon_once"),
    "sensitivity_share_max": ("client", "server", "sensitivity_share"),
}
"""Column -> holder, adversary and column of `audit.parquet` whose largest value so far it is."""


def read_run(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """(rounds, clients, summary) of a run folder, the rounds by seed and version.

    Raises RunError where the folder is missing, unfinished or unreadable.
    """
    path = Path(folder)
    try:
        rounds = pd.read_parquet(path / "rounds.parquet").rename(columns={"version": "round"})
        clients = pd.read_parquet(path / "clients.parquet")
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        rounds = with_spending(rounds.sort_values(["seed", "round"], kind="stable"), path)
        rounds = with_audit(rounds, path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as a run ({error}); delete it and run again") from None
    return rounds, clients, summary


def collect(
    runs: Iterable[tuple[dict[str, Any], str | Path]], targets: Mapping[str, Target] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Frames `rounds`, `ends` and `cells` of the given (axis values, run folder) pairs.

    targets: further columns of `ends`.
    """
    rounds, ends, cells = [], [], []
    for values, folder in runs:
        keys = {name: plain(value) for name, value in values.items()}
        measured, clients, summary = read_run(folder)
        by_seed = measured.groupby("seed")
        kinds = [kind for kind in ("honest", "malicious") if f"{kind}_bans" in measured]
        measured = measured.assign(**{f"{kind}_banned": by_seed[f"{kind}_bans"].cumsum() for kind in kinds})
        last, whole = _last_measured(measured), whole_run(measured, clients, summary)
        last = last.drop(columns=[name for name in whole if name != "seed" and name in last])
        last = with_provable(last.merge(whole, on="seed", how="left", validate="one_to_one"), Path(folder))
        last["diverged"] = last["diverged"].astype(bool) | last["seed"].isin(summary.get("diverged", []))
        last = last.assign(**{name: target.costs(measured, last) for name, target in targets.items()})
        data = summary.get("data", {})
        about = {
            "run": Path(folder).name,
            "source": data.get("source", ""),
            # a file may hold a part of the data set that it is named after, or a re-make of it
            "original": bool(data.get("original", data.get("source") == "real")),
            "provenance": data.get("provenance", ""),
            "notes": " | ".join(dict.fromkeys(str(note) for note in summary.get("notes", []))),
            "privacy": " | ".join(map(str, summary.get("privacy", []))),
        }
        cells.append(pd.DataFrame([{**keys, **about}]))
        rounds.append(_keyed(measured, keys))
        ends.append(_keyed(last, keys))
    return {"rounds": _joined(rounds), "ends": _joined(ends), "cells": _joined(cells)}


def with_spending(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the columns of `SPENT`, and `epsilon_exact_sum`: the largest of a client and that of the models.

    NaN where a scheme states nothing about published models. A run without the file is left as it is.
    """
    file = folder / "spending.parquet"
    if not file.is_file():
        return rounds
    holders = sorted({holder for holder, _ in SPENT.values()})
    held = pd.read_parquet(file, filters=[("adversary", "in", ["server", "public"]), ("holder", "in", holders)])
    held = held.rename(columns={"version": "round"})
    made = rounds
    for holder in holders:
        wanted = {f"{accountant}_epsilon": name for name, (of, accountant) in SPENT.items() if of == holder}
        # What was released after the last version stands in a second row of that version.
        own = (held["holder"] == holder) & (held["adversary"] == HELD_BY.get(holder, "server"))
        rows = held[own].drop_duplicates(["seed", "round"])
        rows = rows[["seed", "round", *wanted]].rename(columns=wanted)
        made = made.merge(rows, on=["seed", "round"], how="left", validate="one_to_one")
        if len(rows):  # the models have a row only where something changed
            columns = list(wanted.values())
            made[columns] = made.groupby("seed")[columns].ffill().fillna(0.0)
    if "epsilon_exact_max" in made:
        made = made.assign(epsilon_exact_sum=made["epsilon_exact_max"] + made["epsilon_exact_model"])
    return made


def with_audit(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the columns of `AUDITED`, as far as each version, of the kinds of twins that count.

    A run that was not audited is left as it is.
    """
    file = folder / "audit.parquet"
    if not file.is_file():
        return rounds
    found = pd.read_parquet(file).rename(columns={"version": "round"})
    found = found[found["counts"]]
    made = rounds
    for name, (holder, adversary, column) in AUDITED.items():
        rows = found[(found["holder"] == holder) & (found["adversary"] == adversary)]
        largest = rows.groupby(["seed", "round"])[column].max().rename(name).reset_index()
        made = made.merge(largest, on=["seed", "round"], how="left", validate="one_to_one")
        if len(rows) or (holder == "client" and len(found)):  # who holds nothing has learnt nothing
            made[name] = made.groupby("seed")[name].cummax()
            made[name] = made.groupby("seed")[name].ffill().fillna(0.0)
    return made


def with_provable(ends: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add `epsilon_provable_max` and `measured_of_provable` of the clients, for the server, where there is a ledger."""
    file = folder / "ledger.parquet"
    if not file.is_file():
        return ends
    server = pd.read_parquet(file, filters=[("adversary", "==", "server"), ("holder", "==", "client")])
    proven = server[np.isfinite(server["provable"]) & (server["provable"] > 0)]
    by_seed = server.groupby("seed")["provable"].max().rename("epsilon_provable_max").to_frame()
    by_seed["measured_of_provable"] = (proven["measured"] / proven["provable"]).groupby(proven["seed"]).max()
    return ends.merge(by_seed.reset_index(), on="seed", how="left", validate="one_to_one")


def _last_measured(rounds: pd.DataFrame) -> pd.DataFrame:
    """The last row of each seed; what it lacks, since a run that ends early is not judged again, from earlier rows."""
    judged = [str(name) for name in rounds if name in EVALUATED or str(name).startswith(BY_DOMAIN)]
    filled = rounds.copy()
    filled[judged] = rounds.groupby("seed")[judged].ffill()
    return filled.groupby("seed").tail(1).reset_index(drop=True)


def _keyed(frame: pd.DataFrame, keys: dict[str, Any]) -> pd.DataFrame:
    keyed = frame.drop(columns=[name for name in keys if name in frame])
    for place, (name, value) in enumerate(keys.items()):
        keyed.insert(place, name, [value] * len(keyed))
    return keyed


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def plain(value: Any) -> Any:
    """An axis value as a table cell: numbers and names as they are, all else as JSON text."""
    if isinstance(value, bool) or value is None or isinstance(value, list | tuple | dict):
        return json.dumps(value, sort_keys=True)
    return value


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    """Writes a frame as CSV, byte-stable, whole or not at all."""
    with atomic_file(path) as part:
        frame.to_csv(part, index=False, float_format="%.10g", lineterminator="\n")


def read_csv(path: str | Path) -> pd.DataFrame:
    """A frame that `write_csv` wrote; an empty one where it had no columns."""
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"run": str})
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
