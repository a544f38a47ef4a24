"""Precision and recall of a detector: its verdicts and bans compared with the actual attackers.

An update counts as malicious if its client is an attacker, whether or not the attack had begun or did harm. Where
attackers are drawn per task, it counts as malicious if its task was an attack.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.base.messages import Bools, Ints

COUNTS = ("judged", "unjudged", "true_positives", "false_positives", "false_negatives", "honest_bans", "malicious_bans")
"""Names of the counts of `overall_quality`."""


@dataclass(frozen=True)
class Judgement:
    """Verdicts of a detector on one buffer, and the resulting bans."""

    version: int
    """Model version that the buffer was applied to."""
    clients: Ints | Sequence[int]
    """(n_updates,) sender of each update."""
    accused: Bools | Sequence[bool]
    """(n_updates,) whether the update was judged as poison (`Verdict.accused`)."""
    banned: tuple[int, ...] = ()
    """Clients banned by this verdict."""
    unjudged: Bools | Sequence[bool] | None = None
    """(n_updates,) whether the detector could not judge the update; None: all were judged."""
    malicious: Bools | Sequence[bool] | None = None
    """(n_updates,) whether the update was sent by an attacker; None: if its sender is an attacker of the whole run."""


def overall_quality(judgements: Iterable[Judgement], attackers: Bools) -> dict[str, float]:
    """Return counts of updates and bans summed over all judgements, and `precision` and `recall`, by name.

    `attackers`: (clients,) whether each client attacks. Counts (`COUNTS`): `judged` (accepted or accused) and
    `unjudged` updates; `true_positives`, `false_positives`, `false_negatives` among the judged; `honest_bans`,
    `malicious_bans`. Precision is NaN if no update was accused, recall if no attacker's update was judged.

    Raises:
        ValueError: numbers of updates and verdicts differ.
    """
    total = dict.fromkeys(COUNTS, 0.0)
    for one in judgements:
        malicious = attackers[np.asarray(one.clients, dtype=np.int64)]
        if one.malicious is not None:
            malicious = np.asarray(one.malicious, dtype=bool)
        accused = np.asarray(one.accused, dtype=bool)
        if malicious.shape != accused.shape:
            raise ValueError(f"one verdict per update is required: {malicious.shape} updates, {accused.shape} verdicts")
        judged = np.ones(len(accused), dtype=bool)
        if one.unjudged is not None:
            # A struck update was judged, whether or not it was aggregated.
            judged = ~np.asarray(one.unjudged, dtype=bool) | accused
        bans = attackers[np.array(one.banned, dtype=np.int64)]
        found = (judged, ~judged, accused & malicious, accused & ~malicious, judged & ~accused & malicious, ~bans, bans)
        for name, marked in zip(COUNTS, found, strict=True):
            total[name] += float(marked.sum())
    accused_all = total["true_positives"] + total["false_positives"]
    malicious_all = total["true_positives"] + total["false_negatives"]
    found_all, nan = total["true_positives"], float("nan")
    precision, recall = (found_all / whole if whole else nan for whole in (accused_all, malicious_all))
    return {**total, "precision": precision, "recall": recall}
