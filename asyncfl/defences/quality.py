"""Precision and recall of a detector: its verdicts and bans compared with the actual attackers.

An update counts as malicious if its client is an attacker, whether or not the attack had begun or did harm. Where
attackers are drawn per task, it counts as malicious if its task was an attack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COUNTS = (
    "judged",
    "unjudged",
    "true_positives",
    "false_positives",
    "false_negatives",
    "honest_bans",
    "malicious_bans",
)


@dataclass(frozen=True)
class Judgement:
    """Verdicts of a detector on one buffer, and the resulting bans."""

    version: int
    """Model version that the buffer was applied to."""
    clients: NDArray[np.int64] | Sequence[int]
    """(n_updates,) sender of each update."""
    accused: NDArray[np.bool_] | Sequence[bool]
    """(n_updates,) whether the update was judged as poison: flagged, or struck where flagged updates are still
    aggregated."""
    banned: tuple[int, ...] = ()
    """Clients banned by this verdict."""
    unjudged: NDArray[np.bool_] | Sequence[bool] | None = None
    """(n_updates,) whether the detector could not judge the update; None: all were judged."""
    malicious: NDArray[np.bool_] | Sequence[bool] | None = None
    """(n_updates,) whether the update was sent by an attacker; None: if its sender is an attacker of the whole run."""


def detection_quality(
    judgements: Iterable[Judgement], attackers: NDArray[np.bool_]
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """Return a table as name -> column, with one row per judgement.

    `attackers`: (clients,) whether each client attacks. Columns: `version`; number of `judged` (accepted or accused)
    and `unjudged` updates; `true_positives`, `false_positives`, `false_negatives` among the judged; `precision` (NaN if
    no update was accused); `recall` (NaN if no attacker's update was judged); `honest_bans`, `malicious_bans` of this
    version; `honest_banned`, `malicious_banned` up to and including it.
    """
    rows = [_row(judgement, attackers) for judgement in judgements]
    counts = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in ("version", *COUNTS)}
    columns: dict[str, NDArray[np.int64] | NDArray[np.float64]] = dict(counts)
    true, false, missed = (counts[name] for name in ("true_positives", "false_positives", "false_negatives"))
    columns["precision"] = _ratio(true, true + false)
    columns["recall"] = _ratio(true, true + missed)
    columns["honest_banned"] = np.cumsum(counts["honest_bans"])
    columns["malicious_banned"] = np.cumsum(counts["malicious_bans"])
    return columns


def overall_quality(judgements: Iterable[Judgement], attackers: NDArray[np.bool_]) -> dict[str, float]:
    """Return the counts of `detection_quality` summed over all judgements, and `precision` and `recall` of the sums, by
    name.

    `attackers`: (clients,) whether each client attacks. Precision is NaN if no update was accused, recall if no
    attacker's update was judged.
    """
    columns = detection_quality(judgements, attackers)
    total = {name: float(np.sum(columns[name])) for name in COUNTS}
    accused = total["true_positives"] + total["false_positives"]
    malicious = total["true_positives"] + total["false_negatives"]
    total["precision"] = total["true_positives"] / accused if accused else float("nan")
    total["recall"] = total["true_positives"] / malicious if malicious else float("nan")
    return total


def _row(judgement: Judgement, attackers: NDArray[np.bool_]) -> dict[str, int]:
    """Return the version and the counts (`COUNTS`) of one judgement. `attackers`: (clients,).

    Raises:
        ValueError: numbers of updates and verdicts differ.
    """
    malicious = attackers[np.asarray(judgement.clients, dtype=np.int64)]
    if judgement.malicious is not None:
        malicious = np.asarray(judgement.malicious, dtype=bool)
    accused = np.asarray(judgement.accused, dtype=bool)
    if malicious.shape != accused.shape:
        raise ValueError(f"one verdict per update is required: {malicious.shape} updates, {accused.shape} verdicts")
    judged = np.ones(len(accused), dtype=bool)
    if judgement.unjudged is not None:
        # A struck update was judged, whether or not it was aggregated.
        judged = ~np.asarray(judgement.unjudged, dtype=bool) | accused
    bans = attackers[np.array(judgement.banned, dtype=np.int64)]
    return {
        "version": judgement.version,
        "judged": int(judged.sum()),
        "unjudged": int((~judged).sum()),
        "true_positives": int((accused & malicious).sum()),
        "false_positives": int((accused & ~malicious).sum()),
        "false_negatives": int((judged & ~accused & malicious).sum()),
        "honest_bans": int((~bans).sum()),
        "malicious_bans": int(bans.sum()),
    }


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return `part` / `whole`, (n,), NaN where `whole` is 0."""
    ratio = np.full(len(part), np.nan)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio
