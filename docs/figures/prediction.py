"""Draw docs/figures/prediction.png: the clock of 46 settings of others, predicted from two, beside what they measured.

    python docs/figures/prediction.py

Simulates the clock of each setting of workflow/experiments/outside/fedsasync_clock.yaml without training, which gives
the same times, twelve seeds each, and prints every prediction and the median errors; the experiment's claims hold the
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
EVALUATED = {"evaluated": "at the clients"}
"""The second prediction, which is drawn."""
SEEDS = range(12)
TICKS = ((1, 2, 4, 6), (10, 15, 20), (4, 8, 16, 25))
NAMES = ("seconds of a round", "updates in a round", "rounds of a slow client")


def predicted(scenario: Scenario, slow: int) -> tuple[float, float, float]:
    """Return seconds of a round (6 to 24), updates in a round (2 to 24) and mean updates of the first `slow` clients,
    as means over the seeds."""
    groups = ((0, slow - 1),) if slow else ()
    found = []
    for seed in SEEDS:
        log = RoundLog.of_run(simulate_clock(scenario, seed), groups)
        rounds = log.of_groups[groups[0]].sum() / slow if slow else np.nan
        found.append(((log.time_s[23] - log.time_s[4]) / 19, log.updates[1:24].mean(), rounds))
    seconds, updates, rounds = np.mean(found, axis=0).tolist()
    return seconds, updates, rounds


def slow_clients(label: str, clients: int) -> int:
    """Return the number of slow clients of a setting by its label, such as `20 %, M 8`."""
    return round(int(label.partition(" ")[0]) * clients / 100)


def main() -> None:
    """Predict, print and draw."""
    experiment = load(EXPERIMENT)
    if experiment.scenario is None:
        raise SystemExit(f"{EXPERIMENT} has no scenario")
    base = Scenario.read(experiment.scenario)
    claims = [claim for claim in experiment.claims if isinstance(claim, Predicts) and claim.where == EVALUATED]
    measured: tuple[dict[str, float], ...] = ({}, {}, {})
    for claim in claims:
        place = {"time_s": 0, "participants": 1}.get(claim.column, 2)
        measured[place].update(claim.numbers)
    cells = {
        label: predicted(base.override(changes), slow_clients(label, base.data.clients))
        for label, changes in experiment.variants["cell"].items()
    }
    for label, numbers_of in cells.items():
        beside = [
            f"{x:7.3f} {'      -' if t is None else f'{t:7.3f} {x / t - 1:+6.1%}':15}"
            for x, t in zip(numbers_of, (of.get(label) for of in measured), strict=True)
        ]
        print(f"{label:14}", *beside)
    with plt.rc_context(RC):
        canvas, axes = plt.subplots(1, 3, figsize=(7.2, 3.0))
        for place, (axis, numbers, name) in enumerate(zip(axes, measured, NAMES, strict=True)):
            theirs = np.array([*numbers.values()])
            ours = np.array([cells[label][place] for label in numbers])
            errors = ours / theirs - 1
            middle = np.median(np.abs(errors))
            print(f"{name}: {len(errors)} settings, median error {middle:.1%}, mean {errors.mean():+.1%}")
            ends = np.array([0.9 * min(theirs.min(), ours.min()), 1.1 * max(theirs.max(), ours.max())])
            axis.fill_between(ends, 0.95 * ends, 1.05 * ends, color=OKABE_ITO[0], alpha=0.2, linewidth=0)
            slow = np.array([not label.startswith("0 %") for label in numbers])
            for chosen, marker, colour, text in (
                (slow, "o", OKABE_ITO[1], "slow clients"),
                (~slow, "s", OKABE_ITO[2], "none"),
            ):
                if chosen.any():
                    axis.plot(theirs[chosen], ours[chosen], marker, color=colour, markersize=3, label=text)
            axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=name, xlabel="measured by them")
            axis.minorticks_off()
            axis.set_xticks(TICKS[place], map(str, TICKS[place]))
            axis.set_yticks(TICKS[place], map(str, TICKS[place]))
            axis.set_aspect("equal")
        axes[0].set_ylabel("predicted")
        axes[0].legend()
        canvas.suptitle("46 settings of others, predicted from two; shaded: 5 % off")
        canvas.tight_layout()
        canvas.savefig(Path(__file__).with_suffix(".png"), bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
