"""What a component leaves in the tables of a run, by the names that its class gives in `logged`."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel

from asyncfl.base.columns import FAMILIES, ClientsTable, EpsilonColumns, FairnessColumns, RoundsTable, columns_of
from asyncfl.base.columns import UploadBudgetColumns as BudgetColumns
from asyncfl.privacy.ledger.rows import COLUMNS as LEDGER
from asyncfl.trace.events import Kind


class Logged(NamedTuple):
    """One thing that is written down."""

    table: str
    """`rounds`, `clients`, `ledger`, `events` or `summary`."""
    name: str
    """Column, kind of event, or key of the summary."""
    meaning: str


def logged_by(component: type[BaseModel]) -> list[Logged]:
    """What a class leaves in a run, those of the classes that it derives from first. Raises ValueError for a name that
    no table has."""
    names = [name for cls in reversed(component.__mro__) for name in vars(cls).get("logged", ())]
    return [_known(name) for name in dict.fromkeys(names)]


def _known(name: str) -> Logged:
    table, _, column = name.partition(".")
    rounds = columns_of(RoundsTable, FairnessColumns, BudgetColumns, EpsilonColumns)
    if table == "rounds" and column in rounds:
        return Logged(table, column, rounds[column].meaning)
    if table == "rounds" and column.startswith("detector_"):
        return Logged(table, column, FAMILIES["detector_"].meaning)
    if table == "clients" and column in (clients := columns_of(ClientsTable)):
        return Logged(table, column, clients[column].meaning)
    if table == "ledger" and column in LEDGER:
        return Logged(table, column, LEDGER[column])
    if table == "events" and column in list(Kind):
        return Logged(table, column, "each with its time, client and task")
    if table == "summary" and column in ("notes", "data", "fates", "tasks"):
        return Logged(table, column, "of the whole run")
    raise ValueError(f"no table of a run has {name}")
