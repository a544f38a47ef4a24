"""What is counted over a whole run, one row per seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

HIGH = 0.95
"""Share of the values that lie below the `high` quantile."""
HALF = 0.5 - 1e-9
"""Of a buffer's weight, but for rounding."""
COUNTS = ("judged", "true_positives", "false_positives", "false_negatives")


def whole_run(rounds: pd.DataFrame, clients: pd.DataFrame, summary: dict[str, Any]) -> pd.DataFrame:
    """Exposure, staleness, and how good detection was, by seed.

    Of the clock: `versions` published; `round_s_mean`, `_median`, `_high`: time between versions; `staleness_median`,
    `_high` over versions of the mean age of their updates; `exposures_up_max`, `exposures_up_mean` and the same
    `_down`: transfers of a client that the tap holds; `exposures_up_median`; `exposures_assumed`;
    `overheard_down_share`; `staleness_mean` over all aggregated updates, `staleness_max`; `attacker_upload_share`,
    `attacker_aggregated_share`: the attackers' part of what arrived, and of what was aggregated with a weight above 0
    (an update that Krum does not choose is not among that). Where aggregates were measured: `kappa`, `kappa_bound`,
    `outnumbered_share`.

    Of detection (left out for runs that were written without it): updates `judged`, `true_positives`,
    `false_positives`, `false_negatives` of all verdicts; `precision` (NaN where nobody was accused), `recall` (NaN
    where nothing malicious came); `honest_flagged_share` of the honest updates judged (buffers that nobody could score
    are not among them); clients `honest_banned`, `malicious_banned`, and `malicious_banned_share` of the attackers.
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
    return counted.join(told).reset_index()


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
    exposures = said.get("exposures", {})
    versions = said.get("versions", 0)
    return {
        "versions": versions,
        "exposures_assumed": _or_nan(exposures.get("assumed")),
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
        "precision": _or_nan(detection["precision"]),
        "recall": _or_nan(detection["recall"]),
        "honest_flagged_share": counts["false_positives"] / honest if honest else np.nan,
        "honest_banned": detection["honest_bans"],
        "malicious_banned": detection["malicious_bans"],
        "malicious_banned_share": detection["malicious_bans"] / detection["attackers"]
        if detection["attackers"]
        else np.nan,
    }


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else float(value)
