"""Draw docs/figures/one_upload.png: each scheme's claimed epsilon of one upload, and the epsilon that twins measure.

    python docs/figures/one_upload.py docs/results/full

Reads the published tables of `audit/nbafl` and `audit/schemes`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from asyncfl.experiments.csv_files import read_csv
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.results.figure_style import OKABE_ITO, RC

BROKEN, KEPT = OKABE_ITO[1], OKABE_ITO[2]
Z_ONE_POINT_ONE = float(exact_epsilon((2 / 1.1) ** 2, 1e-5))
NBAFL = {"method": "sync", "C": "median"}
ROWS: tuple[tuple[str, float, str, dict[str, Any]], ...] = (
    ("SAFL, steps per batch, ε = 6", 6, "schemes", {"scheme": "SAFL 6"}),
    ("adaptive, begins at ε = 12", 12, "schemes", {"scheme": "adaptive 12"}),
    ("NbAFL, ε = 50", 50, "nbafl", {"privacy.epsilon": 50, **NBAFL}),
    ("NbAFL, ε = 60", 60, "nbafl", {"privacy.epsilon": 60, **NBAFL}),
    ("NbAFL, ε = 100", 100, "nbafl", {"privacy.epsilon": 100, **NBAFL}),
    ("DP-FedAvg, z = 1.1", Z_ONE_POINT_ONE, "schemes", {"scheme": "DP-FedAvg, z = 1.1"}),
    ("DP-SGD, z = 1.1", Z_ONE_POINT_ONE, "schemes", {"scheme": "DP-SGD, z = 1.1"}),
)
"""Name, claim for one upload, experiment, and cell of the experiment."""
TICKS = (2, 6, 20, 60, 200, 600, 2000)


def measured(results: Path, experiment: str, cell: dict[str, Any]) -> tuple[float, int]:
    """Return the measured epsilon of one upload, mean over seeds, and the number of seeds."""
    rows = read_csv(results / "audit" / experiment / "final.csv")
    rows = rows[rows["metric"] == "epsilon_measured_upload"]
    for name, value in cell.items():
        rows = rows[rows[name].astype(str) == str(value)]
    return float(rows["mean"].iloc[0]), int(rows["seeds"].iloc[0])


def main(results: Path) -> None:
    """Draw the figure."""
    with plt.rc_context(RC):
        canvas, axis = plt.subplots(figsize=(7.2, 3.6))
        counts = set()
        for place, (_, claim, experiment, cell) in enumerate(ROWS):
            shown, seeds = measured(results, experiment, cell)
            counts.add(seeds)
            colour = BROKEN if shown > claim else KEPT
            axis.plot([claim, shown], [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
            axis.plot(claim, place, "D", color="white", markeredgecolor="black", markersize=7, zorder=3)
            axis.plot(shown, place, ">" if shown > claim else "<", color=colour, markersize=9, zorder=3)
            right = max(claim, shown)
            label = (
                f"at least {shown / claim:.2g} times the claim"
                if shown > claim
                else f"{shown / claim:.0%} of the claim"
            )
            axis.annotate(
                label, (right, place), (9, 0), textcoords="offset points", va="center", fontsize=8, color=colour
            )
        axis.set_xscale("log")
        axis.set_xlim(2, 6000)
        axis.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
        axis.minorticks_off()
        axis.set_yticks(range(len(ROWS)), [name for name, *_ in ROWS])
        axis.set_ylim(len(ROWS) - 0.4, -0.6)
        axis.grid(visible=False, axis="y")
        axis.axhline(4.5, color="#999999", linewidth=0.8, linestyle=":")
        for place, label in ((0, "sensitivity assumed"), (len(ROWS) - 1, "sensitivity proven")):
            axis.text(4700, place, label, ha="right", va="center", fontsize=8, color="#666666")
        axis.set_xlabel("ε of one upload")
        axis.plot([], [], "D", color="white", markeredgecolor="black", markersize=7, label="claimed")
        axis.plot([], [], ">", color=BROKEN, markersize=9, label="measured, at least: above the claim")
        axis.plot([], [], "<", color=KEPT, markersize=9, label="measured, at least: within the claim")
        axis.legend(loc="lower center", bbox_to_anchor=(0.42, 1.08), ncols=3, handletextpad=0.2, columnspacing=1.4)
        axis.set_title("Epsilon of one upload: claimed, and measured from below by twins", pad=6, x=-0.2)
        canvas.savefig(Path(__file__).with_suffix(".png"), bbox_inches="tight", metadata={"Software": None})
        print(f"seeds: {', '.join(map(str, sorted(counts)))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
