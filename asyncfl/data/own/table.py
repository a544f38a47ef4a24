"""Data sets of one's own as tables: CSV or Parquet, one sample per row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import default_property
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import FIELDS, Samples, split_train_test, standardise_target
from asyncfl.errors import DataError, Fault, hint, shortened
from asyncfl.own_classes import own_file

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES = 1000
"""Different texts in a column that becomes one number per text."""
MOST_CLASSES = 100
"""Different whole numbers in a target that nobody said were classes."""


class TableFile(Dataset):
    """Rows of a CSV or Parquet file: a column to predict, the others (or some) to predict it from.

    A column of numbers is one feature; a column of text is one feature per text that occurs in it, 1 where it stands
    there and 0 elsewhere. All columns are there for partitions to go by.
    """

    kind: Literal["table"] = "table"
    path: str = Field(min_length=1, examples=["adult.csv"])
    """CSV with a header, or Parquet (.parquet, .pq); looked for in the working directory, beside the scenario, and on
    PYTHONPATH."""
    test_path: str | None = Field(default=None, min_length=1)
    """File of the same columns to test on; null: a fifth of the rows, drawn once and for all."""
    target: str = Field(min_length=1, examples=["income"])
    """Column to predict: classes (text or whole numbers, of which each that occurs is a class), or numbers."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """What the target holds. `auto`: numbers to predict where one of them is not whole, else classes."""
    features: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Columns to learn from, in order; null: all but the target and those in `without`."""
    without: tuple[str, ...] = ()
    """Columns that are not learnt from, such as the one that says whose a row is."""
    standardised: bool = True
    """Whether numbers (those of the target of a regression too) are brought to mean 0 and deviation 1, as measured on
    all rows to train on."""

    called: ClassVar[Mapping[str, str]] = {**FIELDS, "labels": "target", "test_labels": "target"}

    @default_property
    def title(self) -> str:
        """Name of the file."""
        return Path(self.path).name

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,) if self.test_path is None else (self.path, self.test_path)

    def load(self) -> Samples:
        """The rows as arrays: features (n, columns) float32, the names of the classes, and every column."""
        tables = [_read(name) for name in self.files]
        for (path, table), first in zip(tables, [tables[0]] * len(tables), strict=True):
            if faults := [*self._column_faults(table, first[1]), *self._value_faults(table)]:
                raise DataError(faults, path)
        rows = [table for _, table in tables]
        if len(rows) == 1:
            if len(rows[0]) < 2:
                raise DataError(f"must have at least two rows, got {len(rows[0])}", tables[0][0])
            rows = [rows[0].iloc[part] for part in split_train_test(len(rows[0]))]
        train, test = rows
        names, targets, said = self._targets(train[self.target], test[self.target])
        parts = [self._column(name, train, test) for name in self._learnt_from(train)]
        features, test_features = (np.concatenate([part[side] for part in parts], axis=1) for side in (0, 1))
        return Samples(
            features,
            targets[0],
            test_features,
            targets[1],
            names,
            {str(name): _plain(train[name]) for name in train},
            {str(name): _plain(test[name]) for name in test},
            said,
        )

    def _targets(self, train: pd.Series[Any], test: pd.Series[Any]) -> tuple[list[str] | None, list[NDArray[Any]], str]:
        """Names of the classes, the targets of both splits, and what captions say of them; no names: a regression."""
        if not (self.task == "regression" or (self.task == "auto" and any(map(_fractional, (train, test))))):
            return *_classes(train, test), ""
        numbers = np.concatenate([column.to_numpy(np.float64) for column in (train, test)])
        said = ""
        if self.standardised:
            numbers, said = standardise_target(numbers, np.arange(len(train)))
        return None, np.split(numbers.astype(np.float32), [len(train)]), said

    def _learnt_from(self, table: pd.DataFrame) -> list[str]:
        if self.features is not None:
            return list(self.features)
        return [str(name) for name in table if name != self.target and name not in self.without]

    def _column_faults(self, table: pd.DataFrame, first: pd.DataFrame) -> list[Fault]:
        faults = []
        named = {"target": (self.target,), "features": self.features or (), "without": self.without}
        for field, names in named.items():
            for name in names:
                if name not in table:
                    faults.append(Fault(field, f"must be a column, got {name!r}; {hint(name, table, 'columns are')}"))
        if self.features is not None and self.target in self.features:
            faults.append(Fault("features", f"must not hold the target {self.target!r}"))
        if not faults and not self._learnt_from(table):
            faults.append(Fault("features", "must be at least one column besides the target, got none"))
        if not faults and set(self._learnt_from(table)) != set(self._learnt_from(first)):
            faults.append(Fault("", "must have the columns of the file to train on"))
        return faults

    def _value_faults(self, table: pd.DataFrame) -> list[Fault]:
        """Cells that say nothing; lines are those of a CSV file, whose header is line 1."""
        faults = [] if len(table) else [Fault("", "must have at least one row of values, got none")]
        for name in [self.target, *self._learnt_from(table)] if set(self._named()) <= set(table) else []:
            column = table[name]
            bad = column.isna().to_numpy()
            if column.dtype.kind == "f":
                bad = bad | ~np.isfinite(column.to_numpy(np.float64))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                more = f" (and in {int(bad.sum()) - 1} more rows)" if bad.sum() > 1 else ""
                what = f"got {column.iloc[row]} in row {row + 1}{more}; leave such rows out, or the column (without)"
                faults.append(Fault(str(name), f"must have a value in every row, {what}"))
            elif name != self.target and column.dtype.kind not in "buif" and column.nunique() > MOST_VALUES:
                got = f"must be numbers, or at most {MOST_VALUES} different texts, got {column.nunique()}"
                faults.append(Fault(str(name), f"{got} (the first: {shortened(column.iloc[0])}); name it in without"))
        if self.target in table and not faults:
            faults += self._target_faults(table[self.target])
        return faults

    def _target_faults(self, target: pd.Series[Any]) -> list[Fault]:
        """A target that does not hold what the task asks for, or says too little about what it holds."""
        is_text = target.dtype.kind not in "buif"
        if self.task == "regression" and is_text:
            got = shortened(str(target.iloc[0]))
            return [Fault(self.target, f"must be numbers where task is regression, got text (the first: {got})")]
        if self.task == "classification" and not is_text and _fractional(target):
            odd = float(target[target != np.rint(target)].iloc[0])
            return [Fault(self.target, f"must be text or whole numbers where task is classification, got {odd:g}")]
        if self.task == "auto" and not is_text and not _fractional(target) and target.nunique() > MOST_CLASSES:
            many = f"{target.nunique()} different whole numbers"
            return [Fault("task", f"must be classification or regression where the target holds {many}, got auto")]
        return []

    def _named(self) -> list[str]:
        return [self.target, *(self.features or ())]

    def _column(self, name: str, train: pd.DataFrame, test: pd.DataFrame) -> list[NDArray[np.float32]]:
        """(n, width) features to train and to test on that a column becomes."""
        columns = [train[name], test[name]]
        if all(column.dtype.kind in "buif" for column in columns):
            values = [column.to_numpy(np.float64)[:, None] for column in columns]
            if self.standardised:
                mean, deviation = values[0].mean(), values[0].std()
                values = [(one - mean) / (deviation if deviation > 0 else 1.0) for one in values]
            return [one.astype(np.float32) for one in values]
        texts = sorted({str(one) for column in columns for one in column})
        return [(column.astype(str).to_numpy()[:, None] == np.array(texts)).astype(np.float32) for column in columns]


def _read(name: str) -> tuple[Path, pd.DataFrame]:
    """Where a table lies, and its rows."""
    import pandas as pd

    try:
        path = own_file(name)
        if path.suffix.lower() in (".parquet", ".pq"):
            return path, pd.read_parquet(path)
        return path, pd.read_csv(path, skipinitialspace=True, encoding="utf-8-sig")
    except (OSError, ValueError, RuntimeError) as error:  # those of pandas and pyarrow are ValueErrors
        said = " ".join(str(error).split())
        raise DataError(f"cannot be read as a table: {shortened(said, 200)}", name) from None


def _classes(train: pd.Series[Any], test: pd.Series[Any]) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Names of the classes that occur, in order, and the class of each row to train and to test on."""
    columns = [train, test]
    if all(column.dtype.kind in "buif" for column in columns):
        values = sorted({int(one) for column in columns for one in column})
        place = {value: number for number, value in enumerate(values)}
        return [str(value) for value in values], [np.array([place[int(one)] for one in column]) for column in columns]
    names = sorted({str(one) for column in columns for one in column})
    at = {name: number for number, name in enumerate(names)}
    return names, [np.array([at[str(one)] for one in column], np.int64) for column in columns]


def _fractional(column: pd.Series[Any]) -> bool:
    """Whether a column holds numbers of which one is not whole."""
    return column.dtype.kind == "f" and bool((column != np.rint(column)).any())


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    """The values of a column: numbers, or text."""
    return column.to_numpy() if column.dtype.kind in "buif" else column.astype(str).to_numpy(object)
