"""What is drawn from an experiment: curves over rounds, final values against an axis, bars, heat maps, bounds; and
tables.

`x`, `hue` and `panels` name axes or variants of the experiment; every axis must be named or fixed by `where`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from asyncfl.component import Described


class Bound(Described):
    """A convergence bound as a function of some of its arguments (see `asyncfl.privacy`)."""

    theorem: Literal[2, 3]
    """2: all clients participate; 3: K of N."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Arguments that stay fixed."""


class Bounds(Bound):
    """A grid of bound values."""

    axes: dict[str, tuple[Any, ...] | dict[Literal["from", "to", "step"], int]]
    """Argument -> values, or `{from: 1, to: 40}` for a range with both ends in it."""

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Argument -> the values it takes."""
        return {
            name: tuple(range(values.get("from", 1), values["to"] + 1, values.get("step", 1)))
            if isinstance(values, dict)
            else values
            for name, values in self.axes.items()
        }


class FigureBase(Described):
    """What all figures have."""

    name: str = Field(default="figure", pattern=r"^[a-z0-9_]+$")
    """File name without ending."""
    title: str | None = None
    """Above the axes; None: the experiment's."""
    hue: str | None = None
    """Axis that is told apart by colour, line and marker."""
    panels: str | None = None
    """Axis with one panel per value, side by side."""
    where: dict[str, Any] = Field(default_factory=dict)
    """Axis -> value: draws a part of the grid."""
    log: bool = False
    """Logarithmic y axis."""
    share_y: bool = True
    """Whether all panels have the same y axis."""

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        """(field of the figure, axis it names)."""
        own = [("hue", self.hue), ("panels", self.panels), ("x", getattr(self, "axis", None))]
        return [(field, name) for field, name in own if name] + [("where", name) for name in self.where]


class Measured(FigureBase):
    """What figures of measured columns have; several columns can share a figure, a panel each."""

    ys: tuple[str, ...] = ()
    """Columns with a panel each, instead of `y` and of `panels`: the accuracy in each domain, for example."""
    overlay: bool = False
    """The columns of `ys` share a panel instead, told apart by colour: epsilon by several accountants, for example."""

    @model_validator(mode="after")
    def _check_panels(self) -> Measured:
        if self.overlay and (not self.ys or self.hue):
            raise ValueError("overlay tells the columns of ys apart by colour: it needs ys, and no hue")
        if self.ys and self.panels and not self.overlay:
            raise ValueError("ys and panels exclude each other: a panel shows one column or one value of an axis")
        return self


class Curves(Measured):
    """A measured column over rounds or time, one line per value of `hue`."""

    kind: Literal["curves"] = "curves"
    x: Literal["round", "time_s", "bytes_up", "bytes_down", "epsilon_exact_max", "epsilon_exact_model"] = "round"
    """What has passed: versions, virtual seconds, traffic, or the largest epsilon of a client or that of the models."""
    y: str = "train_loss"
    """Column of the run's rounds."""
    start: int = 1
    """First round that is drawn; 0 draws the initial model too."""
    log_x: bool = False
    """Logarithmic x axis, for times and budgets that range over decades."""


class Final(Measured):
    """The value after the last round against an axis, one line per value of `hue`."""

    kind: Literal["final"] = "final"
    x: str
    y: str = "train_loss"
    log_x: bool = False
    """Logarithmic x axis, for an axis of numbers that range over decades."""
    bound: Bound | None = None
    """A theorem drawn in a panel beside the measured values, over the same axis and hue."""

    @property
    def axis(self) -> str:
        """The axis on x."""
        return self.x


class Bars(Measured):
    """The value after the last round as bars, for axes that are names."""

    kind: Literal["bars"] = "bars"
    x: str
    y: str = "test_accuracy"

    @property
    def axis(self) -> str:
        """The axis on x."""
        return self.x


class Heatmap(FigureBase):
    """The value after the last round as a coloured table with its numbers written in, for two axes of names."""

    kind: Literal["heatmap"] = "heatmap"
    x: str
    """Axis across."""
    rows: str
    """Axis down."""
    y: str = "test_accuracy"

    @property
    def axes_named(self) -> list[tuple[str, str]]:
        return [("x", self.x), ("rows", self.rows), *super().axes_named]


class BoundCurves(FigureBase):
    """An entry of `bounds` against one of its arguments; its best integer is marked."""

    kind: Literal["bound"] = "bound"
    bound: str
    """Entry of `bounds`."""
    x: str

    @property
    def axis(self) -> str:
        """The argument on x."""
        return self.x


Figure = Annotated[Curves | Final | Bars | Heatmap | BoundCurves, Field(discriminator="kind")]


class Table(Described):
    """Final values as a table: mean and half width of the 95 % interval."""

    name: str = Field(default="table", pattern=r"^[a-z0-9_]+$")
    value: str = "train_loss"
    """Column of the values after the last round."""
    rows: str
    """Axis down the side."""
    columns: str | None = None
    """Axis across the top."""
    values: tuple[str, ...] = ()
    """Columns of the values that stand across the top, instead of `value` and of an axis."""
    where: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_columns(self) -> Table:
        if self.values and self.columns:
            raise ValueError("values and columns exclude each other: measured columns or an axis stand across the top")
        return self
