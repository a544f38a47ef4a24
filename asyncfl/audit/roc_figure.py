"""Figure of membership inference: true against false positive rate, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from asyncfl.audit.membership import MembershipScores
from asyncfl.base.figure_style import canvas, looks, save, styled
from asyncfl.privacy.estimators.roc import at_false_rate, curve

LEAST = 1e-3
"""Least rate on the axes: a lower rate would need more non-members than test sets have."""
APART = 1.08
"""Factor between the horizontal positions of two points."""


def draw_curves(scores: Mapping[str, MembershipScores], title: str, caption: str, stem: Path) -> list[Path]:
    """Draw the ROC curve of each attack, with its 95 % interval at 1 %; return the paths of the files.

    stem: path of the figure without ending; .svg, .png and .pdf are written.
    """
    with styled():
        page, (axis,) = canvas(1, caption, title, (5.2, 4.2))
        found = looks(list(scores))
        for place, (attack, one) in enumerate(scores.items()):
            look = {**found[attack], "marker": ""}
            false, true = curve(one.members, one.others)
            # A step curve, since no threshold lies between two points.
            axis.step(np.maximum(false, LEAST), np.maximum(true, LEAST), where="post", label=attack, **look)
            point = at_false_rate(one.members, one.others)
            axis.errorbar(
                # Side by side, so that equal rates do not hide each other.
                [0.01 * APART ** (place - (len(scores) - 1) / 2)],
                [max(point.rate, LEAST)],
                [[max(point.rate, LEAST) - max(point.low, LEAST)], [point.high - max(point.rate, LEAST)]],
                fmt=found[attack]["marker"],
                color=look["color"],
                capsize=3,
            )
        axis.plot([LEAST, 1], [LEAST, 1], color="#777777", linewidth=1, linestyle=(0, (4, 2)), label="guessing")
        axis.set(
            xscale="log",
            yscale="log",
            xlim=(LEAST, 1),
            ylim=(LEAST, 1.05),
            xlabel="false positives, share of non-members",
            ylabel="true positives, share of members",
        )
        axis.legend(loc="lower right")
        return save(page, stem)
