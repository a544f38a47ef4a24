"""Settings of the cells of an experiment, and how they depart from what papers print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from asyncfl.experiments.cells import cells
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.departures import ABSENT, BOUND, Departure, departures, silent_fields, texts
from asyncfl.experiments.grid import AxisValues, Where, points, restricted, several
from asyncfl.experiments.labels import axis_label
from asyncfl.experiments.spec import Experiment, Scale
from asyncfl.privacy.queries.convergence_bounds import BoundSettings, LossConstants


class CellSettings:
    """Settings of an experiment at full scale: what quick scale lowers is said apart."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    @cached_property
    def _cells(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """(axis values, settings) of each cell."""
        return [(cell.values, cell.scenario.model_dump()) for cell in cells(self.experiment, "full")]

    def of_claim(self, claim: Claim) -> list[Departure]:
        """Return the departures of the cells that a sentence of a paper is judged on; none for a claim of ours."""
        paper = self.experiment.source_of(claim).paper
        printed = self.experiment.printed_fields(paper)
        if not printed or self.experiment.author(claim) != "paper":
            return []
        if claim.bound:
            spec = self.experiment.bounds[claim.bound]
            compared = {axis: claim.where.get(axis, values) for axis, values in spec.grid().items()}
            fixed = {**LossConstants().model_dump(), **BoundSettings().model_dump(), **spec.settings}
            grid = points({argument: several(values) for argument, values in compared.items()})
            return departures(printed, [{"bound": {**fixed, **at}} for at in grid])
        return departures(printed, [settings for values, settings in self._cells if claim.compares(values)])

    def in_words(self, where: Where, scale: Scale, computed: AxisValues | None = None) -> str:
        """Return the departures from the experiment's paper of the cells at `where` that a scale runs, in a sentence or
        two.

        computed: axis -> values that a run has; None: those of the plan.
        """
        printed = self.experiment.printed_fields(self.experiment.source.paper)
        of_cells = {name: about for name, about in printed.items() if not name.startswith(BOUND)}
        if not of_cells:
            return ""
        grid = restricted(self.experiment.grid(scale) if computed is None else computed, where)
        fitting = [
            settings
            for at, settings in self._cells
            if all(at[axis] in values for axis, values in grid.items()) and self.experiment.runs(at, scale)
        ]
        silent, against = texts(departures(of_cells, fitting))
        told = [f"The source is silent on: {silent}."] if silent else []
        return " ".join([*told, f"Against the print: {against}."] if against else told)

    def silent_axes(self, claim: Claim) -> dict[str, str]:
        """Return the axes that a claim leaves open, or open at several values, and on which its paper is silent, each
        with its name in words."""
        experiment = self.experiment
        if experiment.author(claim) != "paper":
            return {}
        printed = experiment.printed_fields(experiment.source_of(claim).paper)
        grid = experiment.bounds[claim.bound].grid() if claim.bound else experiment.grid("full")
        taken = [axis for field, axis in claim.axes_named if field != "where"]
        found = {}
        for axis, values in grid.items():
            open_at = several(claim.where.get(axis, values))
            changed = [f"{BOUND}{axis}"] if claim.bound else self._differing(axis, open_at)
            if axis not in taken and len(open_at) > 1 and silent_fields(printed, changed):
                names = [about.name for field, about in printed.items() if silent_fields({field: about}, changed)]
                found[axis] = ", ".join(names) or axis_label(axis, plain_text=True)
        return found

    def _differing(self, axis: str, values: Sequence[Any]) -> list[str]:
        """Return the fields that differ between some values of an axis."""
        changes = [dict(_leaves(self.experiment.changes(axis, value, "full"))) for value in values]
        fields = dict.fromkeys(field for of in changes for field in of)
        return [
            field for field in fields if any(of.get(field, ABSENT) != changes[0].get(field, ABSENT) for of in changes)
        ]


def _leaves(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted field, value) of nested settings."""
    for field, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{field}.")
        elif field != "seeds":
            yield f"{above}{field}", value
