"""Precision and recall of a detector: its verdicts and bans compared with the actual attackers."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from asyncfl.base.messages import Bools

COUNTS = ("judged", "unjudged", "true_positives", "false_positives", "false_negatives", "honest_bans", "malicious_bans")
"""Names of the counts of `overall_quality`."""


class Judgement(NamedTuple):
    """Verdicts of a detector on one buffer of n updates, and the resulting bans."""

    accused: Sequence[bool]  # (n,) whether the update was judged as poison (`Verdict.accused`)
    malicious: Sequence[bool]
    """(n,) whether the update was sent by an attacker, whether or not the attack had begun or did harm."""
    unjudged: Sequence[bool]  # (n,) whether the detector could not judge the update; empty: all were judged
    banned: Sequence[int]  # clients banned by these verdicts


def overall_quality(judgements: Iterable[Judgement], attackers: Bools) -> dict[str, float]:
    """Return counts of updates and bans summed over all judgements, and `precision` and `recall`, by name.

    `attackers`: (clients,) whether each client attacks. Counts (`COUNTS`): `judged` (accepted or accused) and
    `unjudged` updates; `true_positives`, `false_positives`, `false_negatives` among the judged; `honest_bans`,
    `malicious_bans`. Precision is NaN if no update was accused, recall if no attacker's update was judged.
    """
    total = dict.fromkeys(COUNTS, 0.0)
    for one in judgements:
        accused, malicious = np.array(one.accused, dtype=bool), np.array(one.malicious, dtype=bool)
        # A struck update was judged, whether or not it was aggregated.
        judged = accused | ~(np.array(one.unjudged, dtype=bool) if one.unjudged else np.zeros_like(accused))
        bans = attackers[np.array(one.banned, dtype=np.int64)]
        found = (judged, ~judged, accused & malicious, accused & ~malicious, judged & ~accused & malicious, ~bans, bans)
        for name, marked in zip(COUNTS, found, strict=True):
            total[name] += float(marked.sum())
    right, nan = total["true_positives"], float("nan")
    accused_all, malicious_all = right + total["false_positives"], right + total["false_negatives"]
    precision, recall = (right / whole if whole else nan for whole in (accused_all, malicious_all))
    return {**total, "precision": precision, "recall": recall}
