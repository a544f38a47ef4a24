"""CSV files of measured devices and links: a header, then one row per device or link. Further columns are ignored."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from asyncfl.base.arrays import Floats, Ints
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.files.reading import read_bytes
from asyncfl.base.own_classes import own_file

RowOrder = Literal["drawn", "in_order"]
"""`drawn`: each client draws a row, with replacement. `in_order`: client i has row i modulo the number of rows."""


class MeasuredColumn(NamedTuple):
    """Requirements on a column of a profile."""

    name: str
    positive: bool = False  # whether 0 is refused
    at_most: float = math.inf  # largest value that is allowed
    required: bool = True  # whether a file without the column is refused


def profile_content(path: str, field: str) -> tuple[Path, bytes]:
    """Return place and content of a CSV file, looked for in the working directory, beside the scenario and on
    PYTHONPATH. Raises DataError, naming the `field` of the scenario that holds the path, if it cannot be read."""
    try:
        place = own_file(path)
        return place, read_bytes(place)
    except (OSError, ValueError, RuntimeError) as error:  # NUL in a name; ~ of an unknown user
        reason = getattr(error, "strerror", None) or error
        raise DataError([Fault(field, f"must be a CSV file, and {path} cannot be read: {reason}")]) from None


def read_profile(
    path: str, columns: tuple[MeasuredColumn, ...], field: str, separator: str = ",", decimal: str = "."
) -> dict[str, Floats]:
    """Read columns of a CSV file, by name, (rows,) float64 each. A missing optional column is left out.

    `separator`: character between values. `decimal`: decimal sign. `field`: field of the scenario that holds the path.
    Raises DataError with line and column of every missing, unreadable, negative or too large value.
    """
    source, content = profile_content(path, field)
    try:
        reader = csv.reader(
            io.StringIO(content.decode("utf-8-sig"), newline=""), skipinitialspace=True, delimiter=separator
        )
        lines = [(reader.line_num, row) for row in reader if row]
    except (ValueError, csv.Error) as error:
        raise DataError([Fault(field, f"must be a CSV file, and cannot be read: {error}")], source) from None
    if not lines:
        raise DataError("must begin with a header line, but is empty", source)
    header = [name.strip() for name in lines[0][1]]
    missing = [c.name for c in columns if c.required and c.name not in header]
    twice = [c.name for c in columns if header.count(c.name) > 1]
    faults = [Fault("header", f"must have a column {name}, got {', '.join(header)}") for name in missing]
    faults += [Fault("header", f"must have one column {name}, got {header.count(name)}") for name in twice]
    if len(lines) == 1:
        faults.append(Fault("", "must have at least one row of values below its header"))
    if faults:
        raise DataError(faults, source)

    table: dict[str, Floats] = {}
    for column in (column for column in columns if column.name in header):
        at = header.index(column.name)
        cells = [(row[at].replace(decimal, ".") if at < len(row) else "", line) for line, row in lines[1:]]
        table[column.name] = np.array([_value(text, column, line_number, faults) for text, line_number in cells])
    if faults:
        raise DataError(faults, source)
    return table


def _value(text: str, column: MeasuredColumn, line_number: int, faults: list[Fault]) -> float:
    """Read the number in a cell; add a fault to `faults` and return NaN where it is not allowed."""
    required = f"a number {'>' if column.positive else '>='} 0"
    if column.at_most < math.inf:
        required += f" and <= {column.at_most:g}"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    in_range = (value > 0 if column.positive else value >= 0) and value <= column.at_most
    if in_range and not math.isinf(value):
        return value
    came = repr(text.strip()) if text.strip() else "nothing"
    faults.append(Fault(f"line {line_number}, column {column.name}", f"must be {required}, got {came}"))
    return math.nan


def rows_of(clients: int, rows: int, order: RowOrder, rng: np.random.Generator) -> Ints:
    """Return the row of the profile that each client gets, (clients,) int64.

    `rows`: number of rows of the profile. `rng`: draws the rows if `order` is `drawn`.
    """
    if order == "in_order":
        return np.arange(clients, dtype=np.int64) % rows
    # Uniforms rather than rng.integers: two profiles with as many rows, read with the same stream, give each client the
    # same row.
    return np.floor(rng.random(clients) * rows).astype(np.int64)
