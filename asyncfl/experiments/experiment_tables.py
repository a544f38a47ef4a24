"""The tables of an experiment, as pandas frames, from the run folders of its cells.

`rounds`  per seed and version: axis columns, seed, round, time_s and all measured columns
`curves`  long: axis columns, round, metric, mean, low, high (95 % interval over seeds), seeds, diverged;
          see `over_seeds`
`ends`    per seed: the last version's values and the counts of the whole run (see `end_name`, `whole_run`)
`final`   long: axis columns, metric, mean, low, high, seeds, diverged
`cells`   per cell: axis columns, run (hash), data source, whether it is the original, provenance, notes,
          and what each adversary learns, in a sentence each (privacy)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.errors import RunError
from asyncfl.base.tables import FORMER
from asyncfl.defences.quality import COUNTS, detection_shares
from asyncfl.experiments.csv_files import plain
from asyncfl.experiments.experiment_columns import LOWEST, OF_WHOLE_RUN, end_name
from asyncfl.experiments.target import Target
from asyncfl.protocol.messages import Fate

HIGH = 0.95
"""Share of the values that lie below the `high` quantile."""
HALF = 0.5 - 1e-9
"""Half of a buffer's weight, but for rounding."""
EVALUATED = ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "attack_success")
"""Columns that are not measured at every version; `test_accuracy_<domain>` are further ones."""
SPENT = {
    ("median", "server"): {"epsilon_exact_median": "exact"},
    ("model", "public"): {f"epsilon_{name}_model": name for name in ("naive", "basic", "advanced", "rdp", "exact")},
}
"""Holder and adversary in `spending.parquet` -> column, and the accountant whose epsilon it holds; see
`asyncfl.privacy.ledger.accounts.COLUMNS`. The public holds the models and nothing else."""
AUDITED = {
    "epsilon_measured_max": ("client", "server", "epsilon"),
    "epsilon_measured_overheard_max": ("client", "eavesdropper", "epsilon"),
    "epsilon_measured_model": ("model", "server", "epsilon"),
    "epsilon_measured_upload": ("client", "server", "epsilon_once"),
    "sensitivity_share_max": ("client", "server", "sensitivity_share"),
}
"""Column -> holder, adversary and column of `audit.parquet` whose largest value so far it is."""


def collect(
    runs: Iterable[tuple[dict[str, Any], str | Path]], targets: Mapping[str, Target] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Return frames `rounds`, `ends` and `cells` of the given (axis values, run folder) pairs.

    targets: further columns of `ends`.
    """
    found: dict[str, list[pd.DataFrame]] = {"rounds": [], "ends": [], "cells": []}
    for values, folder in runs:
        rounds, clients, summary = read_run(folder)
        for kind in (kind for kind in ("honest", "malicious") if f"{kind}_bans" in rounds):
            rounds[f"{kind}_banned"] = rounds.groupby("seed")[f"{kind}_bans"].cumsum()
        whole = whole_run(rounds, clients, summary)
        ends = _last_measured(rounds).drop(columns=[*OF_WHOLE_RUN, *(set(whole) - {"seed"})], errors="ignore")
        ends = ends.rename(columns=end_name).merge(whole, on="seed", how="left", validate="one_to_one")
        ends = with_provable(ends, Path(folder))
        ends["diverged"] = ends["diverged"].astype(bool) | ends["seed"].isin(summary.get("diverged", []))
        ends = ends.assign(**{name: target.costs(rounds, ends) for name, target in targets.items()})
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
        for name, frame in (("rounds", rounds), ("ends", ends), ("cells", pd.DataFrame([about]))):
            keys = pd.DataFrame({axis: [plain(value)] * len(frame) for axis, value in values.items()})
            rest = frame.drop(columns=list(values), errors="ignore").reset_index(drop=True)
            found[name].append(pd.concat([keys, rest], axis=1))
    return {name: pd.concat(of, ignore_index=True) if of else pd.DataFrame() for name, of in found.items()}


def read_run(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Return (rounds, clients, summary) of a run folder, the rounds by seed and version.

    Raises RunError where the folder is missing, unfinished or unreadable.
    """
    path = Path(folder)
    try:
        rounds = _read(path / "rounds.parquet")
        clients = pd.read_parquet(path / "clients.parquet")
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        rounds = with_spending(rounds.sort_values(["seed", "round"], kind="stable"), path)
        return with_audit(rounds, path), clients, summary
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as a run ({error}); delete it and run again") from None


def _read(file: Path, **options: Any) -> pd.DataFrame:
    """Read a table with its columns' names of today, and the version as `round`."""
    return pd.read_parquet(file, **options).rename(columns={**FORMER.get(file.stem, {}), "version": "round"})


def with_spending(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the columns of `SPENT`, and `epsilon_exact_sum`: the largest of a client and that of the models.

    NaN where a scheme states nothing about published models. A run without the file is returned unchanged.
    """
    if not (file := folder / "spending.parquet").is_file():
        return rounds
    wanted = [("holder", "in", ["median", "model"]), ("adversary", "in", ["server", "public"])]
    held = _read(file, filters=wanted)
    # What was released after the last version stands in a second row of that version.
    held = held.drop_duplicates(["holder", "adversary", "seed", "round"])
    for (holder, adversary), columns in SPENT.items():
        own = held[(held["holder"] == holder) & (held["adversary"] == adversary)].set_index(["seed", "round"])
        found = own[[f"{accountant}_epsilon" for accountant in columns.values()]].reindex(_versions(rounds))
        if len(own):  # the models have a row only where something changed
            found = found.groupby(level="seed").ffill().fillna(0.0)
        rounds[list(columns)] = found.to_numpy()
    if "epsilon_exact_max" in rounds:
        rounds["epsilon_exact_sum"] = rounds["epsilon_exact_max"] + rounds["epsilon_exact_model"]
    return rounds


FATES = {
    "aggregated_share": (Fate.AGGREGATED,),
    "late_share": (Fate.LATE, Fate.SURPLUS),
    "interrupted_share": (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT),
}
"""Column -> fates of the tasks that it counts."""


def with_audit(rounds: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the columns of `AUDITED`, as far as each version, of the kinds of twins that count.

    A run that was not audited is returned unchanged.
    """
    if not (file := folder / "audit.parquet").is_file():
        return rounds
    found = _read(file)
    found = found[found["counts"]]
    for name, (holder, adversary, column) in AUDITED.items():
        rows = found[(found["holder"] == holder) & (found["adversary"] == adversary)]
        largest = rows.groupby(["seed", "round"])[column].max().reindex(_versions(rounds))
        if len(rows) or (holder == "client" and len(found)):  # an adversary that holds nothing has learnt nothing
            largest = largest.groupby(level="seed").cummax().groupby(level="seed").ffill().fillna(0.0)
        rounds[name] = largest.to_numpy()
    return rounds


def _versions(rounds: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(rounds[["seed", "round"]])


def with_provable(ends: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the epsilons of `WholeRunColumns` that compare clients, for the server, where there is a ledger."""
    if not (file := folder / "ledger.parquet").is_file():
        return ends
    server = pd.read_parquet(file, filters=[("adversary", "==", "server"), ("holder", "==", "client")])
    proven = server[np.isfinite(server["provable"]) & (server["provable"] > 0)]
    by_seed = server.groupby("seed")["provable"].max().rename("epsilon_provable_max").to_frame()
    exact = server["exact_epsilon"].where(np.isfinite(server["exact_epsilon"])).groupby(server["seed"])
    by_seed["epsilon_exact_max_over_min"] = exact.max() / exact.min()
    by_seed["measured_of_provable"] = (proven["measured"] / proven["provable"]).groupby(proven["seed"]).max()
    return ends.merge(by_seed.reset_index(), on="seed", how="left", validate="one_to_one")


def _last_measured(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each seed; values that it lacks, as a run that ends early is not evaluated again, from
    earlier rows."""
    judged = [str(name) for name in rounds if name in EVALUATED or str(name).startswith("test_accuracy_")]
    filled = rounds.copy()
    filled[judged] = rounds.groupby("seed")[judged].ffill()
    return filled.groupby("seed").tail(1).reset_index(drop=True)


def whole_run(rounds: pd.DataFrame, clients: pd.DataFrame, summary: dict[str, Any]) -> pd.DataFrame:
    """Return a row per seed with the columns of `WholeRunColumns`: clock, exposure, staleness, robustness, detection.

    Also `staleness_mean_total` over all aggregated updates, `staleness_max_total`, and where verdicts were given their
    counts and the shares of `detection_shares`, each named by `end_name`.
    """
    by_seed = clients.groupby("seed")
    counted = by_seed.agg(
        exposures_up_max=("exposures_up", "max"),
        exposures_up_mean=("exposures_up", "mean"),
        exposures_down_max=("exposures_down", "max"),
        exposures_down_mean=("exposures_down", "mean"),
    )
    for column, share in (("uploads", "attacker_upload_share"), ("used", "attacker_aggregated_share")):
        if {"attacker", column} <= set(clients):
            theirs = clients.get(f"malicious_{column}", clients[column].where(clients["attacker"], 0))
            counted[share] = theirs.groupby(clients["seed"]).sum() / by_seed[column].sum().replace(0, np.nan)
    if "uploads" in clients:
        counted["uploads_max_over_min"] = by_seed["uploads"].max() / by_seed["uploads"].min()
    if "used" in clients:
        for percent in LOWEST:
            counted[f"used_lowest_{percent}"] = by_seed["used"].apply(_mean_of_lowest, percent=percent)
    counted["exposures_up_median"] = by_seed["exposures_up"].median()
    if {"staleness_mean", "participants"} <= set(rounds):
        counted = counted.join(_staleness(rounds))
    if "waiting_max" in rounds:
        counted["waiting_max"] = rounds.groupby("seed")["waiting_max"].max().astype(float)
    if "aggregate_error" in rounds:
        counted = counted.join(_robustness(rounds))
    if "time_s" in rounds:
        gaps = rounds.groupby("seed")["time_s"].diff().dropna().groupby(rounds["seed"])
        counted["round_s_mean"], counted["round_s_median"] = gaps.mean(), gaps.median()
        counted["round_s_high"] = gaps.quantile(HIGH)
    of_seeds = [summary.get("seeds", {}).get(str(seed), {}) for seed in counted.index]
    told = pd.DataFrame([_summarised(of_seed) for of_seed in of_seeds], index=counted.index)
    return counted.join(told.astype(np.float64)).rename(columns=end_name).reset_index()


def _mean_of_lowest(counts: pd.Series, percent: int) -> float:
    """Return the mean of the lowest `percent` of the counts, at least of one of them."""
    return float(counts.nsmallest(max(1, round(percent * len(counts) / 100))).mean())


def _staleness(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return mean over all aggregated updates (each version counts by its updates), median, quantile and largest."""
    known = rounds[rounds["staleness_mean"].notna() & (rounds["participants"] > 0)]
    total = (known["staleness_mean"] * known["participants"]).groupby(known["seed"]).sum()
    made = pd.DataFrame({"staleness_mean": total / known.groupby("seed")["participants"].sum()})
    if "staleness_max" in rounds:
        made["staleness_max"] = known.groupby("seed")["staleness_max"].max().astype(float)
    by_seed = known.groupby("seed")["staleness_mean"]
    made["staleness_median"], made["staleness_high"] = by_seed.median(), by_seed.quantile(HIGH)
    return made


def _robustness(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return errors of aggregates over the spread of the honest updates, and the least that a rule without identities
    can guarantee, see `asyncfl.simulation.aggregate_errors`; NaN where attackers have half of the buffer's weight."""
    made = rounds[rounds["attackers_weight"].notna()]
    outnumbered = made["attackers_weight"] >= HALF
    share, spread = made["attackers_weight"], made["honest_spread"]
    least = share / (1 - 2 * share) * spread
    sums = pd.DataFrame({"error": made["aggregate_error"], "least": least, "spread": spread, "seed": made["seed"]})
    sums = sums[~outnumbered].groupby("seed").sum()
    spread = sums["spread"].where(sums["spread"] > 0)  # one honest update in each buffer has no spread
    of = {"kappa": sums["error"] / spread, "kappa_bound": sums["least"] / spread}
    return pd.DataFrame({**of, "outnumbered_share": outnumbered.groupby(made["seed"]).mean()})


def _summarised(seed: Mapping[str, Any]) -> dict[str, float]:
    """Return versions, exposure and detection from a seed's part of the summary."""
    exposures, versions = seed.get("exposures", {}), seed.get("versions", 0)  # a share of nothing is undefined
    fates = seed.get("fates", {})
    tasks = sum(fates.values()) or np.nan
    found = {
        **{share: sum(fates.get(one, 0) for one in of) / tasks for share, of in FATES.items() if fates},
        "versions": versions,
        "exposures_assumed": exposures.get("assumed"),
        "overheard_down_share": exposures.get("downlink_versions", 0) / (versions or np.nan),
    }
    if (detection := seed.get("detection")) is None:
        return found
    counts = _counts(detection)
    honest = counts["judged"] + counts["unjudged"] - counts["true_positives"] - counts["false_negatives"]
    attackers, banned = detection["attackers"], detection["malicious_bans"]
    return {
        **found,
        **{name: counts[name] for name in COUNTS if not name.endswith("_bans")},
        **detection_shares(counts),
        "honest_flagged_share": counts["false_positives"] / honest if honest else np.nan,
        "honest_banned": detection["honest_bans"],
        "malicious_banned": banned,
        "malicious_banned_share": banned / attackers if attackers else np.nan,
    }


def _counts(detection: Mapping[str, Any]) -> dict[str, float]:
    """Return the counts of a summary's detection. A run of an earlier version counted as missed only what was judged:
    where its detector abstained, the malicious updates that were not flagged are unknown (NaN)."""
    counts = {name: float(detection.get(name, 0)) for name in COUNTS}
    if "malicious_unjudged" not in detection and counts["unjudged"]:
        counts["malicious_unjudged"] = counts["false_negatives"] = np.nan
    return counts
