"""Traces: one by hand with every fate in it, and one that is simulated."""

from typing import Any

import pyarrow as pa
import pytest

from asyncfl.api import simulate
from asyncfl.protocol.events import Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

LOSSY: dict[str, Any] = {
    "data.clients": 6,
    "protocol": {
        "kind": "buffered",
        "rounds": 6,
        "buffer": 2,
        "dispatch": {"kind": "constant", "in_flight": 4},
        "max_staleness": 3,
    },
    "world.device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 1.0},
    "world.uplink.loss": {"kind": "independent", "probability": 0.05},
    "world.uplink.retransmissions": 1,
    "world.dropout": 0.1,
    "world.aggregate_s": 0.1,
    "world.failure_detection": {"kind": "lease", "seconds": 0.5},
    "world.tap.uplink": True,
    "world.availability": {
        "kind": "alternating",
        "on_s": {"kind": "exponential", "mean": 15},
        "off_s": {"kind": "exponential", "mean": 1},
    },
    "evaluation": {"train_every": 0, "test_every": 0},
    "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": 4},
    "seeds": 2,
}
_runs: dict[str, Run] = {}


@pytest.fixture
def lossy(scenario: Scenario) -> Run:
    """An asynchronous run of two seeds in which clients come and go and messages are lost. Simulated once."""
    if not _runs:
        _runs["lossy"] = simulate(scenario.override(LOSSY))
    return _runs["lossy"]


@pytest.fixture
def story() -> pa.Table:
    """Eight tasks of seed 3, of which number 5 never began, with a fate of each sort."""
    book = Recorder(seed=3)

    def add(time_s: float, kind: Kind, task: int = -1, client: int = -1, version: int = 0, **more: Any) -> None:
        book.add(time_s, kind, task=task, client=client, version=version, **more)

    def phases(task: int, client: int, base: int, *times: float) -> list[tuple[float, Kind, dict[str, Any]]]:
        kinds = (Kind.DISPATCHED, Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, Kind.TRAINING_STARTED)
        kinds += (Kind.TRAINED, Kind.UPLOAD_STARTED, Kind.UPLOADED)
        dispatched, *rest = times
        at = [dispatched, dispatched, *(time_s for time_s in rest for _ in range(2))]
        details: dict[Kind, dict[str, Any]] = {
            Kind.DOWNLOAD_STARTED: {"size": 100},
            Kind.DOWNLOADED: {"size": 100, "attempt": 1, "detail": "down"},
            Kind.UPLOAD_STARTED: {"size": 100},
            Kind.UPLOADED: {"size": 100, "attempt": 1, "detail": "up"},
        }
        identity = {"task": task, "client": client, "base_version": base}
        return [(t, kind, identity | details.get(kind, {})) for t, kind in zip(at, kinds, strict=False)]

    plan = [(0.0, Kind.PUBLISHED, {"detail": "initial model"})]
    plan += phases(0, 0, 0, 0, 1, 3, 4)
    plan += phases(1, 1, 0, 0, 1, 4.5)
    up = {"task": 1, "client": 1, "base_version": 0, "detail": "up"}
    plan += [(4.8, Kind.RETRANSMITTED, up | {"attempt": 2, "size": 50}), (4.9, Kind.OVERHEARD, up)]
    plan += [(5.0, Kind.UPLOADED, up | {"attempt": 2, "size": 150})]
    plan += phases(2, 2, 0, 0)
    down = {"task": 2, "client": 2, "base_version": 0, "detail": "down", "attempt": 3}
    plan += [(at, Kind.RETRANSMITTED, down | {"attempt": n, "size": 100}) for at, n in ((0.5, 2), (1.0, 3))]
    plan += [(2.0, Kind.LOST, down | {"size": 300})]
    plan += phases(3, 2, 0, 2, 3)
    gone = {"task": 3, "client": 2, "base_version": 0}
    plan += [(4.0, Kind.WENT_OFFLINE, gone), (4.0, Kind.DROPPED_OUT, gone | {"detail": "offline"})]
    plan += [(6.0, Kind.CAME_ONLINE, {"client": 2})]
    plan += phases(4, 0, 0, 4, 4.5, 6, 7)
    late = {"task": 4, "client": 0, "base_version": 0, "version": 1, "weight": 0.0, "detail": "timed_out"}
    plan += [(6.5, Kind.DISCARDED, late)]
    first = {"task": 0, "client": 0, "base_version": 0, "staleness": 0, "weight": 0.5}
    plan += [(5.0, Kind.AGGREGATED, first)]
    flagged = {"task": 1, "client": 1, "base_version": 0, "staleness": 0, "weight": 0.0, "detail": "too far"}
    plan += [(5.0, Kind.FLAGGED, flagged), (5.0, Kind.BANNED, {"client": 1})]
    plan += [(5.0, Kind.WENT_OFFLINE, {"client": 3}), (5.5, Kind.TIMER_FIRED, {"detail": "aggregated"})]
    plan += [(5.5, Kind.PUBLISHED, {"version": 1})]
    plan += phases(6, 2, 0, 6, 7, 8, 9)
    plan += phases(7, 0, 1, 7, 8)
    asked = {"version": 1, "detail": "2 models", "size": 200}
    plan += [(9.1, Kind.SCORES_REQUESTED, asked | {"client": 3})]
    plan += [(9.5, Kind.SCORED, {"client": 3, "version": 1, "detail": "no answer"})]
    plan += [(9.5, Kind.SCORES_REQUESTED, asked | {"client": 0})]
    plan += [(9.8, Kind.SCORED, {"client": 0, "version": 1, "detail": "2 models"})]
    last = {"task": 6, "client": 2, "base_version": 0, "staleness": 1, "weight": 0.25}
    plan += [(9.8, Kind.AGGREGATED, last | {"version": 1}), (10.3, Kind.PUBLISHED, {"version": 2})]
    plan += [(10.3, Kind.STOPPED, {"version": 2, "detail": "all versions published"})]
    for time_s, kind, columns in sorted(plan, key=lambda row: row[0]):
        add(time_s, kind, **columns)
    return book.table()


def trace_of(*events: tuple[float, Kind, dict[str, Any]], **columns: Any) -> pa.Table:
    """Build a trace of seed 0 from events (time, kind, other columns); `columns` hold where an event has no other."""
    book = Recorder(seed=0)
    for time_s, kind, more in events:
        book.add(time_s, kind, **{**columns, **more})
    return book.table()
