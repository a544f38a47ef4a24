"""The user's own data sets as tables: CSV or Parquet, one sample per row."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.errors import DataError, Fault, hint, shortened
from asyncfl.base.files.reading import check_ordinary, read_parquet
from asyncfl.base.own_classes import own_file
from asyncfl.base.quantities import MeasuredIn
from asyncfl.data.own.file_formats import InFiles
from asyncfl.data.own.samples import PART_NAMES, Samples, caption_of_target, split_train_test, standardise
from asyncfl.data.sample_source import Array, Floats, Split

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 1000  # largest number of different texts in a feature column
MOST_CODES = 20
"""Largest number of different numbers among texts that count as categories, such as house numbers with letters."""
ALIKE = 0.9  # least share of texts of one kind in a column of that kind
MOST_CLASSES = 100  # largest number of different integers that count as classes with `task: auto`


class TableFile(InFiles):
    """Rows of a CSV or Parquet file: a column to predict, and all or some of the others as features.

    A column of numbers is one feature. A column of text is one feature per text that occurs in it: 1 in the rows with
    that text, 0 elsewhere. All columns are available to partitions. Means, deviations and texts are measured on rows
    that no client holds, unless `measured_on` says otherwise. Names of columns and classes count as public.
    """

    kind: Literal["table"] = "table"
    path: str = Field(min_length=1, examples=["adult.csv"])
    """CSV with a header, or Parquet (.parquet, .pq); looked for in the working directory, beside the scenario, and on
    PYTHONPATH."""
    test_path: str | None = Field(default=None, min_length=1)
    """File with the same columns for testing; null: a random fifth of the rows, the same in every run."""
    separator: str = Field(default=",", min_length=1, max_length=1)
    """Character between the values of a CSV file, such as `;` or a tab (`"\t"`)."""
    decimal: str = Field(default=".", min_length=1, max_length=1)
    """Decimal sign of numbers in a CSV file, such as `,`."""
    thousands: str | None = Field(default=None, min_length=1, max_length=1)
    """Sign between thousands in numbers of a CSV file; null: there is none."""
    missing: tuple[str, ...] | None = None
    """Texts of a CSV file that stand for a missing value; null: an empty cell, `NA`, `NaN`, `None`, `null` and others
    like them. With `missing: [""]` these words are categories."""
    target: str = Field(min_length=1, examples=["income"])
    """Column to predict: classes (text or integers; each value that occurs is a class), or numbers."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """Meaning of the target. `auto`: numbers to predict if any is not an integer, else classes."""
    features: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Feature columns, in order; null: all but the target and those in `without`."""
    without: tuple[str, ...] = ()
    """Columns that are not features, such as the owner of a row."""
    standardised: bool = True
    """Whether numbers without `bounds` (also the target of a regression) are scaled to mean 0 and deviation 1 over the
    rows of `measured_on`."""
    measured_on: Split = "test"
    """Rows on which means, deviations and the texts that become features are measured. `test`: the rows that models are
    tested on, which no client holds. `train`: all clients' rows; the ledger then proves no epsilon, since the inputs of
    every client depend on every other."""
    bounds: Annotated[Mapping[str, tuple[float, float]], MeasuredIn("those of the columns")] = Field(
        default={}, examples=[{"age": (0, 120)}]
    )
    """Public limits of columns of numbers, low and high: they are cut to these and scaled to -1..1, whatever the rows
    hold."""

    part_names: ClassVar[Mapping[str, str]] = {**PART_NAMES, "labels": "target", "test_labels": "target"}

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,) if self.test_path is None else (self.path, self.test_path)

    def load(self) -> Samples:
        """Load the rows as arrays: features (n, columns) float32, class names, and all columns."""
        tables = [self._read(name) for name in self.files]
        for path, table in tables:
            if faults := self._faults(table, tables[0][1]):
                raise DataError(faults, path)
        rows = [table for _, table in tables]
        if len(rows) == 1:
            if len(rows[0]) < 2:
                raise DataError(f"must have at least two rows, got {len(rows[0])}", tables[0][0])
            rows = [rows[0].iloc[part] for part in split_train_test(len(rows[0]))]
        train, test = rows
        names, targets, caption = self._targets(train[self.target], test[self.target])
        columns = self._feature_columns(train)
        parts = [self._column(train[name], test[name]) for name in columns]
        texts = [name for name in columns if not _are_numbers(train[name], test[name])]
        scaled = {*columns, *([self.target] if names is None else [])} - {*texts, *self.bounds}
        measured = self.measured_on if texts or (scaled and self.standardised) else None
        features, test_features = (np.concatenate([part[side] for part in parts], axis=1) for side in (0, 1))
        unseen = (_unseen(name, part) for name, part in zip(columns, parts, strict=True) if name in texts)
        caption = "; ".join(filter(None, (caption, *unseen)))
        of_rows, of_tests = ({str(name): _plain(part[name]) for name in part} for part in (train, test))
        return Samples(features, targets[0], test_features, targets[1], names, of_rows, of_tests, measured, caption)

    def _read(self, name: str) -> tuple[Path, pd.DataFrame]:
        """Read a table and return its path and rows, texts without spaces around them."""
        import pandas as pd

        try:
            path = own_file(name)
            check_ordinary(path)
            if path.suffix.lower() in (".parquet", ".pq"):
                return path, read_parquet(path).to_pandas()
            options: dict[str, Any] = {"sep": self.separator, "decimal": self.decimal, "thousands": self.thousands}
            if self.missing is not None:
                options |= {"keep_default_na": False, "na_values": list(self.missing)}
            table = pd.read_csv(path, skipinitialspace=True, encoding="utf-8-sig", **options)
        except (OSError, ValueError, RuntimeError, LookupError, MemoryError) as error:  # pandas and pyarrow raise those
            reason = " ".join(str(error).split())
            raise DataError(f"cannot be read as a table: {shortened(reason, 200)}", name) from None
        for column in (one for one in table if table[one].dtype.kind not in "buifcmM"):
            table[column] = table[column].map(lambda one: one.strip() if isinstance(one, str) else one)
        return path, table

    def _targets(self, train: pd.Series[Any], test: pd.Series[Any]) -> tuple[list[str] | None, list[Array], str]:
        """Return the class names (None for a regression), the targets of both splits, and a caption."""
        if self.task == "regression" or (self.task == "auto" and (_fractional(train) or _fractional(test))):
            caption = ""
            if self.target in self.bounds:
                caption = "target {:g}..{:g} as -1..1".format(*self.bounds[self.target])
            elif self.standardised:
                caption = caption_of_target((test if self.measured_on == "test" else train).to_numpy(np.float64))
            return None, self._scaled(train, test), caption
        read: Callable[[Any], int | str] = int if _are_numbers(train, test) else str
        columns = [list(map(read, column)) for column in (train, test)]
        place = {value: number for number, value in enumerate(sorted({*columns[0], *columns[1]}))}
        return list(map(str, place)), [np.array([place[one] for one in column], np.int64) for column in columns], ""

    def _feature_columns(self, table: pd.DataFrame) -> list[str]:
        if self.features is not None:
            return list(self.features)
        return [str(name) for name in table if name != self.target and name not in self.without]

    def _column(self, train: pd.Series[Any], test: pd.Series[Any]) -> list[Floats]:
        """Convert a column to features (n, width) for training and testing."""
        if _are_numbers(train, test):
            return [one[:, None] for one in self._scaled(train, test)]
        texts = np.unique((test if self.measured_on == "test" else train).astype(str))
        return [(column.astype(str).to_numpy()[:, None] == texts).astype(np.float32) for column in (train, test)]

    def _scaled(self, train: pd.Series[Any], test: pd.Series[Any]) -> list[Floats]:
        """Scale a column of numbers by its bounds, or by its mean and deviation; return both splits."""
        columns = [column.to_numpy(np.float64) for column in (train, test)]
        if train.name in self.bounds:
            low, high = self.bounds[str(train.name)]
            columns = [(2 * np.clip(column, low, high) - low - high) / (high - low) for column in columns]
        elif self.standardised:
            measured = columns[self.measured_on == "test"]
            columns = [standardise(column, measured) for column in columns]
        return [column.astype(np.float32) for column in columns]

    def _faults(self, table: pd.DataFrame, first: pd.DataFrame) -> list[Fault]:
        """Report faults of the columns, or else of the cells, or else of the target; `first`: the rows to train on."""
        named: dict[str, Iterable[str]] = {"target": (self.target,), "features": self.features or ()}
        named |= {"without": self.without, "bounds": self.bounds}
        missing = [
            Fault(field, f"must be a column, got {name!r}; {hint(name, table, 'columns are')}")
            for field, names in named.items()
            for name in names
            if name not in table
        ]
        if missing and table.shape[1] == 1 and (sign := next((one for one in ";\t|" if one in table.columns[0]), None)):
            got = f"got one column, {shortened(repr(table.columns[0]))}"
            return [Fault("separator", f"must be the character between values, {got}; set separator: {sign!r}")]
        stages = self._column_faults, self._value_faults, self._target_faults
        return missing or next(filter(None, (list(faults(table, first)) for faults in stages)), [])

    def _column_faults(self, table: pd.DataFrame, first: pd.DataFrame) -> Iterator[Fault]:
        for name, (low, high) in self.bounds.items():
            if not -math.inf < low < high < math.inf:
                got = f"got {low:g}, {high:g}"
                yield Fault(f"bounds.{name}", f"must be a low and a higher finite number, {got}")
            elif table[name].dtype.kind not in "buif":
                yield Fault(f"bounds.{name}", f"must be a column of numbers, got text ({table[name].iloc[0]})")
        features = self._feature_columns(table)
        if self.target in features:
            yield Fault("features", f"must not hold the target {self.target!r}")
        if not features:
            yield Fault("features", "must be at least one column besides the target, got none")
        elif set(features) != set(self._feature_columns(first)):
            yield Fault("", "must have the columns of the file to train on")
        for name in features if self.features is None else ():
            if UNNAMED.fullmatch(name):
                got = f"column {1 + list(table).index(name)} has none: row numbers, it seems"
                yield Fault("header", f"must name each feature, {got}; set without: [{quoted(name)}]")

    def _value_faults(self, table: pd.DataFrame, first: pd.DataFrame) -> Iterator[Fault]:
        """Report empty and invalid cells; row numbers count from 1 after the header."""
        if not len(table):
            yield Fault("", "must have at least one row of values, got none")
        for name in (self.target, *self._feature_columns(table)):
            column = table[name]
            is_target, numbers = name == self.target, column.dtype.kind in "buif"
            bad = column.isna().to_numpy()
            if column.dtype.kind == "f":
                bad = bad | ~np.isfinite(column.to_numpy(np.float64))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                more = f" (and in {int(bad.sum()) - 1} more rows)" if bad.sum() > 1 else ""
                got = f"got {column.iloc[row]} in row {row + 1}{more}"
                advice = "leave such rows out, or the column (without), or say which texts are missing values (missing)"
                yield Fault(str(name), f"must have a value in every row, {got}; {advice}")
            elif numbers or (is_target and self.task != "auto"):
                continue
            elif (odd := _odd_one_out(column)) is not None:
                got = f"got {shortened(repr(column.iloc[odd]))} in row {odd + 1} among numbers"
                way_out = "set task: classification" if is_target else "name the column in without"
                yield Fault(str(name), f"must be numbers or text, {got}; mend it, or {way_out}")
            elif (kind := _written_as_text(column)) is not None:
                first_text = shortened(repr(column.iloc[0]))
                ways = {
                    "numbers": "set decimal and thousands, or write plain numbers",
                    "points in time": "make numbers of them",
                }
                allowed = f"must be numbers or categories, got {kind} written as text (the first: {first_text})"
                yield Fault(str(name), f"{allowed}; {ways[kind]}, or name the column in without")
            elif not is_target and (texts := column.nunique()) > MOST_VALUES:
                got = f"got {texts} (the first: {shortened(column.iloc[0])}); name it in without"
                yield Fault(str(name), f"must be numbers, or at most {MOST_VALUES} different texts, {got}")

    def _target_faults(self, table: pd.DataFrame, first: pd.DataFrame) -> Iterator[Fault]:
        """Report a target that does not fit the task, is ambiguous with `auto`, or has classes for tests alone."""
        target = table[self.target]
        if table is not first and not _fractional(target) and self.task != "regression":
            known = set(map(str, first[self.target]))
            if unknown := sorted(set(map(str, target)) - known):
                allowed = f"must be of the {len(known)} classes to train on ({shortened(', '.join(sorted(known)))})"
                numbers = target.dtype.kind in "buif" and target.nunique() > MOST_CLASSES
                if not numbers:
                    yield Fault(self.target, f"{allowed}, got also {shortened(', '.join(map(repr, unknown)))}")
        if target.dtype.kind not in "buif":
            if self.task == "regression":
                got = shortened(str(target.iloc[0]))
                yield Fault(self.target, f"must be numbers where task is regression, got text (the first: {got})")
        elif self.task == "classification" and _fractional(target):
            odd = float(target[target != np.rint(target)].iloc[0])
            yield Fault(self.target, f"must be text or whole numbers where task is classification, got {odd:g}")
        elif self.task == "auto" and not _fractional(target) and target.nunique() > MOST_CLASSES:
            many = f"{target.nunique()} different whole numbers"
            yield Fault("task", f"must be classification or regression where the target holds {many}, got auto")


def _are_numbers(*columns: pd.Series[Any]) -> bool:
    return all(column.dtype.kind in "buif" for column in columns)


def _odd_one_out(column: pd.Series[Any]) -> int | None:
    """Return the row of the first text in a column of numbers; None for a column of categories.

    A column counts as one of numbers if nine in ten of its values are numbers, more than `MOST_CODES` different ones.
    """
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    texts = np.flatnonzero(numbers.isna())
    if not len(texts) or 10 * len(texts) > len(column) or numbers.nunique() <= MOST_CODES:
        return None
    return int(texts[0])


UNNAMED = re.compile(r"Unnamed: \d+")
"""Name that pandas gives to a column without one."""
_NUMBER = re.compile(r"[+-]?(\d{1,3}([.,' \u00a0]\d{3})+|\d+)([.,]\d+)?([eE][+-]?\d+)?")
"""A number with signs between thousands or another decimal sign than the point."""


def quoted(name: str) -> str:
    """Return a name as YAML reads it back."""
    return f'"{name}"'


def _written_as_text(column: pd.Series[Any]) -> str | None:
    """Return what the texts of a column are, if nine in ten are alike and they are too many for categories: `numbers`
    or `points in time`; None if neither."""
    import pandas as pd

    different = column.astype(str).drop_duplicates()
    if len(different) <= MOST_CODES:
        return None
    if different.map(lambda text: _NUMBER.fullmatch(text.strip()) is not None).mean() >= ALIKE:
        return "numbers"
    if not different.str.contains(r"\d{4}|:\d\d|\d[/.-]\d", regex=True).mean() >= ALIKE:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a guess at each text's own format
        times = pd.to_datetime(different.head(1000), errors="coerce", format="mixed")
    return "points in time" if times.notna().mean() >= ALIKE else None


def _unseen(name: str, part: Sequence[Floats]) -> str:
    """Return in words how many rows have a text that no feature stands for; empty if none has."""
    rows = int(sum((one.sum(1) == 0).sum() for one in part))
    return f"{rows} rows hold a text of {name} that no measured row has" if rows else ""


def _fractional(column: pd.Series[Any]) -> bool:
    """Whether a column holds a number that is not an integer."""
    return column.dtype.kind == "f" and bool((column != np.rint(column)).any())


def _plain(column: pd.Series[Any]) -> Array:
    """Return the values (n,) of a column: numbers and booleans as they are, all others as text; None for a gap."""
    if column.dtype.kind in "buif":
        return column.to_numpy()
    return np.array([None if gap else str(one) for one, gap in zip(column, column.isna(), strict=True)], object)
