"""Precision and recall of a detector: its verdicts and bans compared with the actual attackers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools

COUNTS = (
    *("judged", "unjudged", "true_positives", "false_positives", "false_negatives", "malicious_unjudged"),
    *("honest_bans", "malicious_bans"),
)
"""Names of the counts of `overall_quality`."""
SHARES = ("precision", "recall", "recall_judged", "unjudged_share")
"""Names of the shares of `detection_shares`."""


class Judgement(NamedTuple):
    """Verdicts of a detector on one buffer of n updates, and the resulting bans."""

    accused: Sequence[bool]  # (n,) whether the update was judged as poison (`Verdict.accused`)
    malicious: Sequence[bool]
    """(n,) whether the update was sent by an attacker, whether or not the attack had begun or did harm."""
    unjudged: Sequence[bool]  # (n,) whether the detector could not judge the update; empty: all were judged
    banned: Sequence[int]  # clients banned by these verdicts


def overall_quality(judgements: Iterable[Judgement], attackers: Bools) -> dict[str, float]:
    """Return counts of updates and bans summed over all judgements, and the shares of `detection_shares`, by name.

    `attackers`: (clients,) whether each client attacks. Counts (`COUNTS`): `judged` (accepted or accused) and
    `unjudged` updates; `true_positives`, `false_positives`; `false_negatives`: malicious updates that were not accused,
    of which the detector could not judge `malicious_unjudged`; `honest_bans`, `malicious_bans`.
    """
    total = dict.fromkeys(COUNTS, 0.0)
    for one in judgements:
        accused, malicious = np.array(one.accused, dtype=bool), np.array(one.malicious, dtype=bool)
        # A struck update was judged, whether or not it was aggregated.
        judged = accused | ~(np.array(one.unjudged, dtype=bool) if one.unjudged else np.zeros_like(accused))
        bans = attackers[np.array(one.banned, dtype=np.int64)]
        found = (judged, ~judged, accused & malicious, accused & ~malicious, ~accused & malicious, ~judged & malicious)
        for name, marked in zip(COUNTS, (*found, ~bans, bans), strict=True):
            total[name] += float(marked.sum())
    return total | detection_shares(total)


def detection_shares(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the shares (`SHARES`) that follow from `COUNTS`; NaN for a share of no update.

    `precision` of the accused updates, `recall` of all malicious updates, `recall_judged` of those that were judged,
    and `unjudged_share` of all updates.
    """
    right, missed = counts["true_positives"], counts["false_negatives"]
    parts = (
        (right, right + counts["false_positives"]),
        (right, right + missed),
        (right, right + missed - counts["malicious_unjudged"]),
        (counts["unjudged"], counts["judged"] + counts["unjudged"]),
    )
    return {name: part / whole if whole else math.nan for name, (part, whole) in zip(SHARES, parts, strict=True)}
