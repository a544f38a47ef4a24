"""Data sets of the Hugging Face hub, or in its formats on disk, through the package `datasets` (an extra)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import default_property
from asyncfl.base.errors import DataError, Fault, hint, shortened
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.pictures import picture_array
from asyncfl.data.own.samples import Samples
from asyncfl.data.sample_source import Array


class HuggingFace(Dataset):
    """A data set that `datasets.load_dataset` finds, with a column to predict and one or more feature columns.

    A single feature column may hold pictures (all of one size) or lists of numbers; several feature columns hold one
    number each. All other columns of single values are available to partitions.
    """

    kind: Literal["huggingface"] = "huggingface"
    name: str = Field(min_length=1, examples=["ylecun/mnist"])
    """Name on the hub (`ylecun/mnist`), or a folder of files."""
    subset: str | None = None
    """Name of the configuration, if there are several."""
    revision: str | None = None
    """Commit on the hub; null: the newest, which may change (in any case the digest of a run includes the samples)."""
    split: str = "train"
    """Split that clients hold."""
    test_split: str | None = "test"
    """Split for testing; null: a random fifth of the other split, the same in every run."""
    features: tuple[str, ...] = Field(default=("image",), min_length=1)
    """Feature columns, in order."""
    target: str = "label"
    """Column to predict: classes, or numbers as floats."""

    @default_property
    def title(self) -> str:
        return self.name

    def load(self) -> Samples:
        """Load pictures as bytes, or numbers; `datasets` downloads them and keeps a copy."""
        try:
            import datasets
        except ImportError:
            message = "huggingface needs the package datasets, which is not installed; pip install 'asyncfl[data]'"
            raise DataError([Fault("data.dataset", message)]) from None
        datasets.disable_progress_bars()
        train = self._rows(datasets, self.split)
        test = None if self.test_split is None else self._rows(datasets, self.test_split)
        if faults := self._column_faults(train):
            raise DataError(faults, self.name)
        kind = train.features[self.target]
        names = tuple(kind.names) if hasattr(kind, "names") else None
        parts = self._features(train), np.asarray(train[self.target])
        if test is None:
            return Samples(*parts, classes=names, columns=self._others(train))
        tests = self._features(test), np.asarray(test[self.target])
        return Samples(*parts, *tests, names, self._others(train), self._others(test))

    def _rows(self, datasets: Any, split: str) -> Any:
        try:
            return datasets.load_dataset(self.name, self.subset, split=split, revision=self.revision)
        except Exception as error:  # the hub's client raises many kinds of errors
            reason = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 200)
            raise DataError([Fault(f"split {split}", f"cannot be loaded: {reason}")], self.name) from None

    def _column_faults(self, rows: Any) -> list[Fault]:
        known = rows.column_names
        return [
            Fault(field, f"must be a column, got {name!r}; {hint(name, known, 'columns are')}")
            for field, name in [*(("features", name) for name in self.features), ("target", self.target)]
            if name not in known
        ]

    def _features(self, rows: Any) -> Array:
        """Return the feature columns as one array (n, ...)."""
        columns = [[self._value(name, row, value) for row, value in enumerate(rows[name])] for name in self.features]
        for name, values in zip(self.features, columns, strict=True):
            for row, value in enumerate(values):
                if value.shape != values[0].shape or value.dtype.kind not in "buif":
                    got = f"{value.dtype} {value.shape} in row {row}"
                    allowed = f"must be numbers or pictures of one shape {values[0].shape}"
                    raise DataError([Fault(name, f"{allowed}, got {got}")], self.name)
        if len(columns) == 1:
            found = np.stack(columns[0])
            return found[:, None] if found.ndim == 1 else found
        return np.stack([np.stack(values) for values in columns], axis=1)

    def _value(self, name: str, row: int, value: Any) -> Array:
        """Return a feature of a row as an array; pictures as bytes."""
        if not hasattr(value, "mode"):  # a picture of PIL has one
            return np.asarray(value)
        try:
            return picture_array(value)
        except (OSError, ValueError) as error:
            raise DataError([Fault(name, f"{error} in row {row}")], self.name) from None

    def _others(self, rows: Any) -> dict[str, Array]:
        """Return the columns of single values other than features and target."""
        names = [name for name in rows.column_names if name not in (*self.features, self.target)]
        found = {name: np.asarray(rows[name]) for name in names}
        return {name: values for name, values in found.items() if values.ndim == 1 and values.dtype.kind in "buifU"}
