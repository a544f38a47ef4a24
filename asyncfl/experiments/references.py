"""What figures, tables, targets and claims of an experiment name: axes, values and columns that exist, before anything
is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from asyncfl.base.columns import Column
from asyncfl.base.errors import Fault, hint
from asyncfl.experiments.bounds import first_fault
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.columns import TARGETS, is_known, measured_columns
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.spec import Experiment


class Referring(Protocol):
    """A part of an experiment that names axes, values of them and columns, each with the field that names it."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field, axis)."""

    @property
    def values_named(self) -> list[tuple[str, str, Any]]:
        """(field, axis, value of it)."""

    @property
    def columns_named(self) -> list[tuple[str, str, str]]:
        """(field, table of the column: rounds or ends, column)."""


OF_CLASSES = ("test_accuracy", "attack_success", "client_accuracy_std", "client_accuracy_worst_decile")
"""Columns that are empty where numbers are predicted."""


@dataclass(frozen=True)
class Known:
    """What the parts of an experiment may name."""

    grid: AxisValues
    """Axis or variant -> its values or labels at full scale."""
    columns: Mapping[str, Mapping[str, Column]]
    """Table (rounds, ends) -> its columns."""
    rounds: int | None = None
    """Rounds of the longest cell, where that is known."""

    @classmethod
    def of(cls, experiment: Experiment, domains: Iterable[str], rounds: int | None, regression: bool) -> Known:
        """domains: those of its federations, where they have several. rounds: of the longest cell. regression: whether
        all cells predict numbers, so that nothing is measured of classes."""
        domains = tuple(domains)
        methods = () if experiment.pictures is None else experiment.pictures.methods
        inferred = experiment.membership is not None
        columns = {
            table: measured_columns(table, domains, experiment.targets, methods, membership=inferred)
            for table in ("rounds", "ends")
        }
        if regression:
            columns = {
                table: {n: about for n, about in of.items() if n not in OF_CLASSES} for table, of in columns.items()
            }
        return cls(experiment.grid("full"), columns, rounds)

    def faults(self, part: Referring) -> Iterator[Fault]:
        """What of a part's names does not exist."""
        yield from unknown_axes(part.axes_named, self.grid)
        yield from unknown_values(part.values_named, self.grid)
        for field, table, column in part.columns_named:
            if not is_known(column, self.columns[table]):
                yield Fault(field, f"there is no column {column}; {hint(column, self.columns[table], 'columns')}")


def unknown_axes(named: Iterable[tuple[str, str]], axes: AxisValues) -> Iterator[Fault]:
    """A fault for each (field, axis) whose axis is not there."""
    for field, axis in named:
        if axis not in axes:
            yield Fault(field, f"there is no axis {axis}; {hint(axis, axes, 'axes')}")


def unknown_values(named: Iterable[tuple[str, str, Any]], axes: AxisValues) -> Iterator[Fault]:
    """A fault for each (field, axis, value) whose value the axis does not take."""
    for field, axis, value in named:
        if axis in axes and value not in axes[axis]:
            yield Fault(field, f"{value!r} is not among the values of {axis}; {hint(value, axes[axis], 'values')}")


def reference_faults(
    experiment: Experiment, domains: Iterable[str], rounds: int | None, regression: bool = False
) -> Iterator[Fault]:
    """Faults of what figures, tables, targets, claims and `seeds.cells` name.

    domains: those of the federations of its cells, where they have several. rounds: of its longest cell, None where
    that is not known. regression: whether all cells predict numbers.
    """
    known = Known.of(experiment, domains, rounds, regression)
    yield from _target_faults(experiment, known)
    for name, bounds in experiment.bounds.items():
        if fault_of_bound := first_fault(bounds, bounds.grid()):
            yield Fault(f"bounds.{name}", fault_of_bound)
    for number, exception in enumerate(experiment.seeds.cells):
        named = [("where", axis) for axis in exception.where]
        for fault in (*unknown_axes(named, known.grid), *unknown_values(exception.values_named, known.grid)):
            yield fault.under(f"seeds.cells.{number}")
    for place, figure in experiment.placed_figures:
        for fault in _figure_faults(figure, experiment, known):
            yield fault.under(place)
    for number, table in enumerate(experiment.tables):
        for fault in (*known.faults(table), *_loose_axes(table, known.grid, "rows nor columns")):
            yield fault.under(f"tables.{number}")
    for number, claim in enumerate(experiment.claims):
        for fault in _claim_faults(claim, experiment, known):
            yield fault.under(f"claims.{number}")


def _target_faults(experiment: Experiment, known: Known) -> Iterator[Fault]:
    for name, target in experiment.targets.items():
        place = f"targets.{name}"
        start = next(start for start, unit in TARGETS.items() if unit == target.unit)
        if not (name.startswith(start) and name.isidentifier()):
            yield Fault(place, f"must be named {start}..., as its cost is {target.cost}; figures tell the unit by it")
        if not is_known(target.column, known.columns["rounds"]):
            near = hint(target.column, known.columns["rounds"], "columns")
            yield Fault(f"{place}.column", f"there is no column {target.column}; {near}")


def _figure_faults(figure: Figure, experiment: Experiment, known: Known) -> Iterator[Fault]:
    if figure.bound_named is not None:
        if figure.bound_named not in experiment.bounds:
            yield _unknown_bound(figure.bound_named, experiment)
            return
    elif experiment.scenario is None:
        yield Fault("kind", f"{figure.kind} needs a scenario; without one only kind: bound can be drawn")
        return
    axes = figure.axes(known.grid, experiment.bounds)
    yield from Known(axes, known.columns).faults(figure)
    yield from _loose_axes(figure, axes, "x, hue nor panels")
    if fault_of_bound := figure.own_bound_fault(axes):
        yield Fault("bound", fault_of_bound)


def _loose_axes(part: Referring, axes: AxisValues, drawn: str) -> Iterator[Fault]:
    """Axes of which a figure or table does not show the values, but has several; none where one is misspelt."""
    if any(axis not in axes for _, axis in part.axes_named):
        return
    shown = {axis for field, axis in part.axes_named if field != "where"}
    kept = {axis: sum(axis == of for _, of, _ in part.values_named) or len(values) for axis, values in axes.items()}
    for axis, number in kept.items():
        if axis not in shown and number > 1:
            yield Fault("", f"axis {axis} is neither {drawn}; name it, or fix it to one value with where")


def _claim_faults(claim: Claim, experiment: Experiment, known: Known) -> Iterator[Fault]:
    if claim.bound is not None:
        if claim.bound not in experiment.bounds:
            yield _unknown_bound(claim.bound, experiment)
            return
        bound = dict.fromkeys(("bound",), known.columns["ends"]["train_loss"])
        yield from Known(experiment.bounds[claim.bound].grid(), {"rounds": bound, "ends": bound}).faults(claim)
    elif experiment.scenario is None:
        yield Fault("bound", "is required, as the experiment has no scenario")
    else:
        yield from known.faults(claim)
        for field, number in claim.rounds_named:
            if known.rounds is not None and number > known.rounds:
                yield Fault(field, f"there is no round {number}; the runs end at round {known.rounds}")


def _unknown_bound(name: str, experiment: Experiment) -> Fault:
    return Fault("bound", f"{name!r} is not among bounds; {hint(name, experiment.bounds, 'bounds')}")
