"""The workflow's step between two looks: which cells get more seeds.

Seeds are added where the doubt is. Claims are judged on the seeds that are there; the cells of comparisons that are
still open, and not given up, may go on to the next look. Where core hours are limited, those claims come first whose
answer is likeliest for the time that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.experiments.cell_settings import CellSettings
from asyncfl.experiments.cells import Cell
from asyncfl.experiments.evidence.decision import ComparisonAnswer, all_of
from asyncfl.experiments.evidence.power import chance, may_be_alike
from asyncfl.experiments.experiment_tables import collect
from asyncfl.experiments.grid import Grid, MissingError, several
from asyncfl.experiments.plan import all_cells
from asyncfl.experiments.spec import Experiment, Scale
from asyncfl.experiments.verdicts import judge_each_silent_value

Counts = list[int]
"""Number of looks made at each cell of an experiment, from 0."""


@dataclass(frozen=True)
class Wish:
    """A claim that more seeds may decide."""

    experiment: str
    cells: frozenset[int]
    """Numbers of the cells that need them."""
    chance: float
    """Probability that the next look decides, if the effect is what it seems."""


def next_looks(
    experiments: Mapping[str, Experiment],
    scale: Scale,
    runs: Path,
    before: Mapping[str, Counts] | None = None,
    core_hours: float = math.inf,
) -> dict[str, Counts]:
    """Return how many looks each cell shall have, by experiment, from the finished runs.

    runs: folder of runs. before: the looks that were made; None: the first. core_hours: for all seeds after the first
    look, those that were added before included. Raises RunError where a run cannot be read.
    """
    looks = {name: list(all_cells(experiment, scale)) for name, experiment in experiments.items()}
    counts = {name: list(before[name]) if before else [0] * len(of[0]) for name, of in looks.items()}
    wishes = []
    for name, experiment in experiments.items():
        at = [looks[name][look][i] for i, look in enumerate(counts[name])]
        frames = collect([(cell.values, runs / cell.digest) for cell in at], experiment.targets)
        grid = Grid(experiment.grid(scale), frames["rounds"], frames["ends"])
        wishes += wishes_of(experiment, scale, grid, [cell.values for cell in at])
    return granted(wishes, counts, looks, core_hours * 3600)


def wishes_of(experiment: Experiment, scale: Scale, grid: Grid, cells: Sequence[Mapping[str, Any]]) -> list[Wish]:
    """Return the claims of an experiment that more seeds may decide. cells: axis values of each cell."""
    found, settings = [], CellSettings(experiment)
    for claim in (claim for claim in experiment.claims if not claim.bound):
        try:
            silent, left = judge_each_silent_value(
                claim, grid, experiment.seeds.looks(scale), settings.silent_axes(claim)
            )
        except MissingError:
            continue
        if left and len(silent) == 1:
            continue  # values that are not run leave it open, unless it holds at one of the others and fails at another
        at_each = [all_of([point.decision for point in points]) for _, points in silent]
        answers = {decision.answer for decision in at_each}
        if "holds" in answers and answers & {"does not hold", "alike"}:
            continue  # the claim depends on the silent setting, whatever the open values turn out to be
        wanting = [one for decision in at_each for one in decision.wanting]
        # a comparison reads an axis that it does not name at all its values
        read = [at for one in wanting for at in one.comparison.cells]
        needed = [
            number
            for number, cell in enumerate(cells)
            if any(all(cell[axis] in several(value) for axis, value in at.items()) for at in read)
        ]
        if needed:
            found.append(Wish(experiment.name, frozenset(needed), min(map(_chance, wanting))))
    return found


def _chance(one: ComparisonAnswer) -> float:
    reading, smallest = one.reading, one.comparison.smallest
    if reading.test != "student" or one.more is None:
        return 0.5
    shown = float(chance(reading.effect, reading.sd, one.more, one.alpha))
    is_likely_alike = smallest is not None and may_be_alike(reading, smallest, one.more, one.alpha)
    return max(shown, 0.5) if is_likely_alike else shown


def granted(
    wishes: Sequence[Wish], counts: Mapping[str, Counts], looks: Mapping[str, Sequence[Sequence[Cell]]], most_s: float
) -> dict[str, Counts]:
    """Return the looks after the wishes that the budget allows, the likeliest answer for its cost first.

    counts: looks made so far. looks: the cells at each look, by experiment. most_s: for all seeds beyond those of the
    first look.
    """

    def cost(name: str, cell: int, look: int) -> float:
        return looks[name][look][cell].scenario.estimated_cost() - looks[name][0][cell].scenario.estimated_cost()

    def added(wish: Wish, now: Mapping[str, Counts]) -> dict[int, float]:
        """Return the seconds of the next look of each cell that has one and was not granted it yet."""
        name = wish.experiment
        todo = [i for i in wish.cells if now[name][i] == counts[name][i] < len(looks[name]) - 1]
        return {i: cost(name, i, counts[name][i] + 1) - cost(name, i, counts[name][i]) for i in todo}

    after = {name: list(of) for name, of in counts.items()}
    spent = sum(cost(name, i, look) for name, of in counts.items() for i, look in enumerate(of))
    for wish in sorted(wishes, key=lambda w: -w.chance / max(sum(added(w, counts).values()), 1e-9)):
        new = added(wish, after)
        if spent + sum(new.values()) <= most_s:
            spent += sum(new.values())
            for i in new:
                after[wish.experiment][i] += 1
    return after


def hours(setting: str | float) -> float:
    """Return the core hours of a setting; empty: no limit. Raises ScenarioError."""
    if setting == "":
        return math.inf
    try:
        value = float(setting)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ScenarioError([Fault("core_hours", f"must be a number of hours, 0 or more, got {setting!r}")])
    return value
