"""Format numbers for people: `36.6 MB`, `12.2 s`, `1.4 h`, `0.81 ± 0.44`.

Tables, figures, captions, verdicts and the command line share these functions. Files for programs (CSV, Parquet, JSON)
keep plain numbers, with the unit in the column's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

NONE = "–"
"""Placeholder of a missing number."""


class Scale(NamedTuple):
    """Divisor of a quantity, and the symbol of the resulting unit."""

    factor: float
    symbol: str


PLAIN = Scale(1.0, "")
SCALES = {
    "s": (Scale(1e-6, "µs"), Scale(1e-3, "ms"), Scale(1, "s"), Scale(60, "min"), Scale(3600, "h"), Scale(86400, "d")),
    "J": (Scale(1e-3, "mJ"), Scale(1, "J"), Scale(1e3, "kJ"), Scale(1e6, "MJ"), Scale(1e9, "GJ")),
    "bytes": (Scale(1, "B"), Scale(1e3, "kB"), Scale(1e6, "MB"), Scale(1e9, "GB"), Scale(1e12, "TB")),
}
"""Unit of a column -> units that it is displayed in, from small to large. Bytes scale by 1000, as links do."""


def scale_of(values: Iterable[float], unit: str) -> Scale:
    """Return the scale at which the largest of `values` has one to three digits before the point.

    Units that are not scaled get a scale of 1 without a symbol.
    """
    if unit not in SCALES:
        return PLAIN
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    fitting = [scale for scale in SCALES[unit] if float(f"{largest / scale.factor:.3g}") >= 1]
    base = next(scale for scale in SCALES[unit] if scale.factor == 1)
    return fitting[-1] if fitting else base if largest == 0 else SCALES[unit][0]


def is_number(text: str) -> bool:
    """Return whether a text is a number as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number(value: float) -> str:
    """Return a number as text: three or four significant digits, all integer digits below 1e5, a dash for NaN."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < 1e-3 or round(abs(value)) >= 1e5:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.4g}"


def quantity(value: float, unit: str = "") -> str:
    """Return a value with its unit as text: three digits and a symbol for `s` and `bytes`, else as `number` does."""
    scale = scale_of([value], unit)
    if not scale.symbol or not math.isfinite(value):
        return number(value)
    return f"{_three_digits(value / scale.factor)} {scale.symbol}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if 1000 <= abs(value) < 1e5 else f"{value:.3g}"


def with_interval(mean: float, half: float, unit: str = "") -> str:
    """Return a mean with its interval as text: `36.6 ± 1.2 MB`.

    The interval gets two digits, the mean the same decimal places but at most four digits. `half`: half the width of
    the interval; NaN (unknown) becomes a dash.
    """
    if not math.isfinite(mean):
        return number(mean)
    scale = scale_of([mean], unit) if mean else scale_of([half], unit)
    mean, half = mean / scale.factor, half / scale.factor
    unit_behind = f" {scale.symbol}" if scale.symbol else ""
    if not math.isfinite(half) or half == 0:
        return f"{_three_digits(mean) if scale.symbol else number(mean)} ± {number(half)}{unit_behind}"
    places = max(_places(half, 2), 0)
    if mean and places > _places(mean, 4):
        return f"{number(mean)} ± {number(float(f'{half:.2g}'))}{unit_behind}"
    if max(abs(mean), half) >= 1e5:
        return f"{number(mean)} ± {number(half)}{unit_behind}"
    return f"{mean:.{places}f} ± {half:.{places}f}{unit_behind}"


def _places(value: float, digits: int) -> int:
    """Return the number of decimal places that show `digits` significant digits; negative before the decimal point."""
    rounded = float(f"{value:.{digits - 1}e}")
    return digits - 1 - math.floor(math.log10(abs(rounded)))


def with_unit(label: str, scale: Scale) -> str:
    """Return the label of an axis with the unit in parentheses."""
    return f"{label} ({scale.symbol})" if scale.symbol else label


class MeasuredIn(NamedTuple):
    """Unit of a field whose name does not give it: `Annotated[int, MeasuredIn("clients")]`."""

    name: str
    """`clients`, `versions`, `share`, ...; `1` for dimensionless numbers."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(schema), "unit": self.name}
