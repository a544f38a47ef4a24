"""Runs of a known world, and what was fitted to them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.base.tables import columns_of
from asyncfl.extras.calibration import calibrate
from asyncfl.extras.calibration.fit import Calibration
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.learning import Training
from asyncfl.protocol.events import SCHEMA, EventsTable, Kind
from asyncfl.protocol.tasks import KINDS, Tasks, codes
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

KNOWN: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 20, "samples_per_client": 50, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"batch_size": 50, "epochs": 2},
    "protocol": {"kind": "fedbuff", "rounds": 200, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 12}},
    "world": {
        "device": {
            "kind": "lognormal",
            "median_s_per_sample": 0.01,
            "sigma": 0.5,
            "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.1},
        },
        "downlink": {
            "latency_s": 0.05,
            "bandwidth_bps": 5e6,
            "loss": {"kind": "gilbert_elliott", "good_to_bad": 0.01, "bad_to_good": 0.3},
        },
        "uplink": {
            "latency_s": {"kind": "lognormal", "median": 0.05, "sigma": 0.3},
            "bandwidth_bps": {"kind": "lognormal", "median": 1e6, "sigma": 0.5},
            "jitter_s": {"kind": "exponential", "mean": 0.02},
            "loss": {"kind": "independent", "probability": 0.02},
            "retransmissions": 5,
            "retransmission_timeout_s": 0.5,
        },
        "availability": {
            "kind": "alternating",
            "on_s": {"kind": "exponential", "mean": 60},
            "off_s": {"kind": "exponential", "mean": 20},
        },
        "aggregate_s": 0.3,
        "dropout": 0.03,
    },
}


def seen(scenario: Scenario, seed: int = 0) -> ObservedRun:
    """A seed on the clock, as it is seen."""
    run = simulate_clock(scenario, seed)
    return ObservedRun.of("run", scenario, run.sizes, run.events, run.tasks)


def fitted_to(scenario: Scenario) -> Calibration:
    """What is fitted to a seed on the clock."""
    return calibrate([seen(scenario)])


@pytest.fixture(scope="session")
def known() -> Scenario:
    """A world in which everything that can be fitted happens."""
    return Scenario.read(KNOWN)


@pytest.fixture(scope="session")
def found(known: Scenario) -> Calibration:
    """What is fitted to it."""
    return fitted_to(known)


def observe_run(
    *events: tuple[float, Kind, dict[str, Any]], samples: tuple[int, ...] = (10, 20), epochs: int = 2
) -> Any:
    """A run of (time, kind, other columns); of its scenario only the epochs are there."""
    blank = {name: column.default for name, column in columns_of(EventsTable).items()}
    rows = [
        {**blank, "time_s": time_s, "seq": seq, "seed": 0, "kind": kind, **more}
        for seq, (time_s, kind, more) in enumerate(events)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    scenario: Any = SimpleNamespace(training=Training(epochs=epochs))
    return ObservedRun(
        "run", scenario, np.array(samples), table, Tasks.of(tasks_of_events(table)), codes(table["kind"], KINDS)
    )
