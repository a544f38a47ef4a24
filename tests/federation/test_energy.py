"""Energy of clients, computed from the phases of their tasks."""

from typing import Any

import numpy as np
import pytest

from asyncfl.federation import clients_table
from asyncfl.federation.run_tables import energy
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.trace import Kind, Recorder
from asyncfl.world.world import Power

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
    found = energy(book.table(), 4, POWER)
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
