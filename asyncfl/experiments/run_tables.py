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
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.errors import RunError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.experiments.target import Target, add_targets
from asyncfl.experiments.whole_run import whole_run

NO_TARGETS: Mapping[str, Target] = {}
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
    runs: Iterable[tuple[dict[str, Any], str | Path]], targets: Mapping[str, Target] = NO_TARGETS
) -> dict[str, pd.DataFrame]:
    """Frames `rounds`, `ends` and `cells` of the given (axis values, run folder) pairs.

    targets: further columns of `ends`.
    """
    rounds, ends, cells = [], [], []
    for values, folder in runs:
        keys = {name: plain(value) for name, value in values.items()}
        measured, clients, summary = read_run(folder)
        measured = _so_far(measured)
        last = _last_measured(measured)
        whole = whole_run(measured, clients, summary)
        last = last.drop(columns=[name for name in whole if name != "seed" and name in last])
        last = last.merge(whole, on="seed", how="left", validate="one_to_one")
        lost = set(summary.get("diverged", []))
        last = with_provable(last, Path(folder))
        last["diverged"] = last["diverged"].astype(bool) | last["seed"].isin(lost)
        last = add_targets(targets, measured, last)
        data = summary.get("data", {})
        notes = " | ".join(dict.fromkeys(str(note) for note in summary.get("notes", [])))
        source = data.get("source", "")
        about = {
            "run": Path(folder).name,
            "source": source,
            # a file may hold a part of the data set that it is named after, or a re-make of it
            "original": bool(data.get("original", source == "real")),
            "provenance": data.get("provenance", ""),
        }
        privacy = " | ".join(map(str, summary.get("privacy", [])))
        cells.append(pd.DataFrame([{**keys, **about, "notes": notes, "privacy": privacy}]))
        rounds.append(_keyed(measured, keys))
        ends.append(_keyed(last, keys))
    return {"rounds": _joined(rounds), "ends": _joined(ends), "cells": _joined(cells)}


def with_spending(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """`rounds` with the columns of `SPENT`, and `epsilon_exact_sum`: the largest of a client and that of the models.

    rounds: columns `seed` and `round`. NaN where a scheme states nothing about published models. A run that was written
    without the file is left as it is.
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
    """`rounds` with the columns of `AUDITED`, as far as each version: of the kinds of twins that count.

    rounds: columns `seed` and `round`. A run that was not audited is left as it is.
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
    """`ends` with the columns `epsilon_provable_max` and `measured_of_provable` of the clients, for the server.

    ends: column `seed`. A run that was written without a ledger is left as it is.
    """
    file = folder / "ledger.parquet"
    if not file.is_file():
        return ends
    server = pd.read_parquet(file, filters=[("adversary", "==", "server"), ("holder", "==", "client")])
    proven = server[np.isfinite(server["provable"]) & (server["provable"] > 0)]
    shown = (proven["measured"] / proven["provable"]).groupby(proven["seed"]).max()
    by_seed = server.groupby("seed")["provable"].max().rename("epsilon_provable_max").to_frame()
    by_seed["measured_of_provable"] = shown
    return ends.merge(by_seed.reset_index(), on="seed", how="left", validate="one_to_one")


def _so_far(rounds: pd.DataFrame) -> pd.DataFrame:
    """With columns `honest_banned` and `malicious_banned`: clients banned up to each version."""
    by_seed = rounds.groupby("seed")
    kinds = [kind for kind in ("honest", "malicious") if f"{kind}_bans" in rounds]
    return rounds.assign(**{f"{kind}_banned": by_seed[f"{kind}_bans"].cumsum() for kind in kinds})


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
