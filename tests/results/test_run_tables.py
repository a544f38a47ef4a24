"""Tables of a run: declared columns with their types, and the energy of clients."""

from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.tables import (
    FAMILIES,
    AggregateColumns,
    ClientsTable,
    EpsilonColumns,
    FairnessColumns,
    FurtherClientsColumns,
    RoundsTable,
    UploadEpsilonColumns,
    columns_of,
)
from asyncfl.protocol.events import Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.run_tables import clients_table, energy
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.world.world import Power

CLIENTS = columns_of(ClientsTable, FurtherClientsColumns)
ROUNDS = columns_of(RoundsTable, FairnessColumns, AggregateColumns, UploadEpsilonColumns, EpsilonColumns)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy": {"kind": "adaptive", "budgets": [1, 1, 2, 2, 3]}},
        {"data.domains": ["mnist", "usps"], "data.clients": 4, "data.test_samples": 20},
        {"world.power": {"compute_w": 5.0}},
        {"threats.attackers": 0.2, "threats.attack": {"kind": "sign_flip"}, "defence.detector": {"kind": "evidence"}},
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


POWER = Power(compute_w=10.0, send_w=2.0, receive_w=1.0, idle_w=0.1)


def test_phases_worked_out_by_hand() -> None:
    book = Recorder(0)
    times = (0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 7.5)
    kinds = (Kind.DISPATCHED, Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, Kind.TRAINING_STARTED)
    kinds += (Kind.TRAINED, Kind.UPLOAD_STARTED, Kind.UPLOADED)
    for time_s, kind in zip(times, kinds, strict=True):
        book.add(time_s, kind, 0, 0)
    # Client 1 goes offline in the midst of its training, client 2 is still training at the end.
    for client, began_s in ((1, 1.0), (2, 2.0)):
        for time_s, kind in zip((0.0, 0.0, began_s, began_s), kinds, strict=False):
            book.add(time_s, kind, client, client)
    book.add(4.0, Kind.WENT_OFFLINE, 1, 1)
    book.add(10.0, Kind.STOPPED)
    found = energy(Tasks.of(tasks_of_events(book.table())), 4, POWER, 10.0)
    assert found["energy_compute_j"].tolist() == [40.0, 30.0, 80.0, 0.0]
    assert found["energy_send_j"].tolist() == [5.0, 0.0, 0.0, 0.0]
    assert found["energy_receive_j"].tolist() == [1.0, 1.0, 2.0, 0.0]
    assert found["energy_idle_j"] == pytest.approx([0.25, 0.6, 0.0, 1.0])


def powered(scenario: Scenario, **changes: Any) -> Scenario:
    return scenario.override({"world.power": POWER.model_dump(), "world.dropout_per_s": 0.5, **changes})


def test_all_watts_alike_are_the_time_of_the_run(scenario: Scenario) -> None:
    alike = powered(scenario, **{"world.power": {"compute_w": 3, "send_w": 3, "receive_w": 3, "idle_w": 3}})
    run = simulate_clock(alike, 0)
    table = clients_table(run)
    total = sum(table[name].to_numpy() for name in table.column_names if name.startswith("energy_"))
    assert total == pytest.approx(np.full(5, 3 * run.events["time_s"].to_numpy().max()))
