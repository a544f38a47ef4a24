"""The columns of a run's and an experiment's tables, by name: what `asyncfl explain` and the page of columns tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from asyncfl.base.tables import (
    AuditTable,
    ClientsTable,
    FurtherClientsColumns,
    LedgerTable,
    PerClientTable,
    SpendingTable,
    TasksTable,
    UploadColumns,
    columns_of,
)
from asyncfl.experiments.experiment_columns import OF_ROUNDS, MembershipColumns, PictureColumns, WholeRunColumns
from asyncfl.protocol.events import EventsTable

TABLES = (
    *OF_ROUNDS,
    WholeRunColumns,
    PictureColumns,
    MembershipColumns,
    PerClientTable,
    TasksTable,
    UploadColumns,
    ClientsTable,
    FurtherClientsColumns,
    LedgerTable,
    SpendingTable,
    AuditTable,
    EventsTable,
)
"""Classes that declare columns: those of a file, then further ones of the same file."""


@dataclass(frozen=True)
class NamedColumn:
    """A column of a table."""

    file: str
    """`rounds.parquet`"""
    name: str
    unit: str
    """Empty: it has none."""
    meaning: str

    def in_words(self) -> str:
        """Return the column as a sentence for a terminal."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.name}{unit}, column of {self.file}: {self.meaning}"


def title_of(table: type) -> str:
    """Return what is said of the columns that a class declares."""
    return " ".join(str(table.__doc__).split())


def columns_named(name: str) -> list[NamedColumn]:
    """Return the columns of a name, with or without that of its table: `staleness_mean`, `rounds.staleness_mean`."""
    table, _, column = name.rpartition(".")
    return [one for one in _all() if one.name == column and table in ("", PurePath(one.file).stem)]


def _all() -> Iterator[NamedColumn]:
    for table in TABLES:
        file = title_of(table).split("`")[1]
        for name, about in columns_of(table).items():
            yield NamedColumn(file, name, about.unit, " ".join(about.meaning.split()))
