"""Every column of a run's tables is declared, with its meaning and type."""

from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.base.columns import (
    FAMILIES,
    AggregateColumns,
    ClientsTable,
    EpsilonColumns,
    FairnessColumns,
    RoundsTable,
    UploadBudgetColumns,
    columns_of,
)
from asyncfl.scenario import Scenario

CLIENTS = columns_of(ClientsTable)
ROUNDS = columns_of(RoundsTable, FairnessColumns, AggregateColumns, UploadBudgetColumns, EpsilonColumns)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy": {"kind": "adaptive", "budgets": [1, 1, 2, 2, 3]}},
        {"data.domains": ["mnist", "usps"], "data.clients": 4, "data.test_samples": 20},
        {"world.power": {"compute_w": 5.0}},
        {"threats.attackers": 0.2, "threats.attack": {"kind": "sign_flip"}, "defence.detector": {"kind": "spectral"}},
        {"evaluation.aggregates": True},
    ],
    ids=["plain", "budgets", "domains", "power", "detector", "aggregates"],
)
def test_every_column_of_a_run_is_declared_with_its_type(scenario: Scenario, changes: dict[str, Any]) -> None:
    tables = simulate(scenario.override({"protocol.rounds": 2, **changes})).tables
    rounds, clients = tables["rounds"], tables["clients"]
    assert rounds.column_names[: len(RoundsTable.model_fields)] == list(RoundsTable.model_fields)
    for name in rounds.column_names:
        of_family = next((column for start, column in FAMILIES.items() if name.startswith(start)), None)
        assert rounds.schema.field(name).type == (ROUNDS.get(name) or of_family).type, name
    energies = {name for name in CLIENTS if name.startswith("energy_")}
    assert {*CLIENTS} - {*clients.column_names} <= {"domain", "budget_spent_s"} | energies
    assert energies <= {*clients.column_names} or scenario.override(changes).world.power is None
    for name in clients.column_names:
        assert clients.schema.field(name).type == CLIENTS[name].type, name


def test_every_column_has_a_description() -> None:
    assert [name for name, column in {**ROUNDS, **CLIENTS}.items() if not column.meaning.endswith(".")] == []
