"""Draw docs/figures/prediction.png: the clock of 46 settings of others, predicted from two, beside what they measured.

    python docs/figures/prediction.py

Simulates the clock of each setting of workflow/experiments/outside/fedsasync_clock.yaml without training, which gives
the same times, six seeds each, and prints every prediction and the median errors; the experiment's claims hold the
numbers of others.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from asyncfl.experiments.claims.predictions import Predicts
from asyncfl.experiments.loading import load
from asyncfl.extras.calibration.round_log import RoundLog
from asyncfl.results.figure_style import OKABE_ITO, RC
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

EXPERIMENT = Path(__file__).parents[2] / "workflow" / "experiments" / "outside" / "fedsasync_clock.yaml"
SEEDS = range(6)
NAMES = ("seconds of a round", "updates in a round", "rounds of a slow client, of 25")


def predicted(scenario: Scenario) -> tuple[float, float, float]:
    """Return seconds of a round (6 to 24), updates in a round (2 to 24) and the mean updates of the clients that had
    fewer than the mean, over the seeds."""
    found = []
    for seed in SEEDS:
        run = simulate_clock(scenario, seed)
        log = RoundLog.of_run(run, tuple((client, client) for client in range(scenario.data.clients)))
        used = np.array([of.sum() for of in log.of_groups.values()])
        below = used[used < used.mean()]
        slow = below.mean() if len(below) else used.mean()
        found.append(((log.time_s[23] - log.time_s[4]) / 19, log.updates[1:24].mean(), slow))
    seconds, updates, slow = np.mean(found, axis=0).tolist()
    return seconds, updates, slow


def main() -> None:
    """Predict, print and draw."""
    experiment = load(EXPERIMENT)
    if experiment.scenario is None:
        raise SystemExit(f"{EXPERIMENT} has no scenario")
    base = Scenario.read(experiment.scenario)
    claims = [claim for claim in experiment.claims if isinstance(claim, Predicts)]
    cells = {label: predicted(base.override(changes)) for label, changes in experiment.variants["cell"].items()}
    for label, ours in cells.items():
        theirs = [claim.numbers.get(label) for claim in claims]
        beside = [
            f"{x:7.3f} {'      -' if t is None else f'{t:7.3f} {x / t - 1:+6.1%}':15}"
            for x, t in zip(ours, theirs, strict=True)
        ]
        print(f"{label:14}", *beside)
    with plt.rc_context(RC):
        canvas, axes = plt.subplots(1, 3, figsize=(7.2, 2.7))
        for place, (axis, claim, name) in enumerate(zip(axes, claims, NAMES, strict=True)):
            theirs = np.array([*claim.numbers.values()])
            ours = np.array([cells[label][place] for label in claim.numbers])
            errors = ours / theirs - 1
            middle = np.median(np.abs(errors))
            print(f"{name}: {len(errors)} settings, median error {middle:.1%}, mean {errors.mean():+.1%}")
            ends = np.array([0.9 * min(theirs.min(), ours.min()), 1.1 * max(theirs.max(), ours.max())])
            axis.fill_between(ends, 0.95 * ends, 1.05 * ends, color=OKABE_ITO[0], alpha=0.2, linewidth=0)
            slow = np.array([not label.startswith("0 %") for label in claim.numbers])
            for chosen, marker, colour, text in (
                (slow, "o", OKABE_ITO[1], "slow clients"),
                (~slow, "s", OKABE_ITO[2], "none"),
            ):
                if chosen.any():
                    axis.plot(theirs[chosen], ours[chosen], marker, color=colour, markersize=3, label=text)
            axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel=f"theirs: {name}")
            axis.set_aspect("equal")
        axes[0].set_ylabel("ours")
        axes[0].legend()
        canvas.suptitle("46 settings of others, predicted from two; shaded: 5 % off")
        canvas.tight_layout()
        canvas.savefig(Path(__file__).with_suffix(".png"), bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
