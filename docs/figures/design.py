"""Draw docs/figures/design.png: how a scenario becomes runs, a ledger, audits and verdicts.

python docs/figures/design.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from asyncfl.results.figure_style import OKABE_ITO, RC

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Sides = list[Any]
"""Left, bottom, width and height."""
BLUE, VERMILION, GREEN, PURPLE = OKABE_ITO[:4]
BOXES = {
    "experiment": (0.1, 4.2, 2.5, 0.95, BLUE, "Experiment file", "axes, seeds, figures,\nclaims with margins"),
    "scenario": (3.3, 4.2, 2.7, 0.95, BLUE, "Scenario", "one typed file, checked\nbefore anything runs"),
    "live": (6.9, 4.2, 2.75, 0.95, BLUE, "Live driver", "the same server in real\ntime: asyncio, or Flower"),
    "clients": (0.3, 2.25, 2.6, 1.15, GREEN, "Clients", "train for real, clip, craft\nthe attack, add noise"),
    "world": (3.6, 2.25, 2.75, 1.15, GREEN, "World, virtual clock", "devices, lossy links,\nabsences, eavesdropper"),
    "server": (6.95, 2.25, 2.75, 1.15, GREEN, "Server, no clock", "buffer, staleness, detector,\nrule, bans, noise"),
    "tasks": (0.1, 0.15, 2.1, 1.15, PURPLE, "Run", "a row per task,\nevents, versions"),
    "ledger": (2.5, 0.15, 2.35, 1.15, VERMILION, "Ledger", "per client, adversary:\nclaimed, proven, exact"),
    "audits": (5.15, 0.15, 2.15, 1.15, VERMILION, "Audits", "twins, canaries,\nmembership, images"),
    "verdicts": (7.6, 0.15, 2.3, 1.15, PURPLE, "Verdicts", "paired by seed, 95 %;\npapers, others, ours"),
}
"""Name -> left, bottom, width, height, colour, title and text of a box."""
ARROWS = (
    ((2.6, 4.67), (3.3, 4.67), "cells", ""),
    ((4.65, 4.2), (4.65, 3.75), "", ""),
    ((8.3, 4.2), (8.3, 3.4), "", ""),
    ((3.6, 3.0), (2.9, 3.0), "task", ""),
    ((2.9, 2.65), (3.6, 2.65), "", "update"),
    ((6.95, 3.0), (6.35, 3.0), "model", ""),
    ((6.35, 2.65), (6.95, 2.65), "", "arrival"),
    ((1.15, 1.9), (1.15, 1.3), "", ""),
    ((2.2, 0.72), (2.5, 0.72), "", ""),
    ((4.85, 0.72), (5.15, 0.72), "", ""),
    ((7.3, 0.72), (7.6, 0.72), "", ""),
)
"""Start, end, and words above and below an arrow."""


def rounded(left: float, bottom: float, width: float, height: float, **look: Any) -> FancyBboxPatch:
    """Return a rectangle with rounded corners."""
    return FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0,rounding_size=0.08", **look)


def box(axis: Axes, sides: Sides, colour: str, title: str, text: str) -> None:
    """Draw a box with a title and a text."""
    left, bottom, width, height = sides
    axis.add_patch(rounded(*sides, facecolor=f"{colour}18", edgecolor=colour))
    middle = left + width / 2
    axis.text(middle, bottom + height - 0.12, title, ha="center", va="top", weight="bold", fontsize=8.5)
    axis.text(middle, bottom + (height - 0.3) / 2, text, ha="center", va="center", fontsize=7.5, linespacing=1.25)


def main() -> None:
    """Draw the figure."""
    with plt.rc_context(RC):
        canvas, axis = plt.subplots(figsize=(7.2, 3.9))
        axis.set(xlim=(0, 10), ylim=(0, 5.25))
        axis.set_axis_off()
        axis.add_patch(rounded(0.1, 1.9, 9.8, 1.85, facecolor="none", edgecolor="#777777", linestyle="--"))
        axis.text(9.8, 1.97, "one seed; same scenario and seed: same bytes", ha="right", fontsize=6.5, color="#555555")
        for *sides, colour, title, text in BOXES.values():
            box(axis, sides, colour, title, text)
        look = {"arrowstyle": "-|>", "color": "#333333", "shrinkA": 0, "shrinkB": 0}
        for start, end, above, below in ARROWS:
            axis.annotate("", end, start, arrowprops=look)
            middle = (start[0] + end[0]) / 2
            axis.text(middle, start[1] + 0.06, above, ha="center", va="bottom", fontsize=6.5)
            axis.text(middle, start[1] - 0.08, below, ha="center", va="top", fontsize=6.5)
        canvas.savefig(Path(__file__).with_suffix(".png"), dpi=200, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
