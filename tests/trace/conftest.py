"""Traces: one by hand with every fate in it, one that is simulated; and a checker of Chrome traces."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from asyncfl.api import simulate
from asyncfl.federation.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.trace import Kind, Recorder

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
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
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
    return story_table()


def trace_of(*events: tuple[float, Kind, dict[str, Any]], **columns: Any) -> pa.Table:
    """Build a trace of seed 0 from events (time, kind, other columns); `columns` hold where an event has no other."""
    book = Recorder(seed=0)
    for time_s, kind, more in events:
        book.add(time_s, kind, **{**columns, **more})
    return book.table()


def story_table() -> pa.Table:
    """Build the events of `story`."""
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


@pytest.fixture
def chrome_faults() -> Callable[[dict[str, Any]], list[str]]:
    """What is wrong with a Chrome trace, read as Perfetto reads it."""
    return _chrome_faults


def _chrome_faults(document: dict[str, Any]) -> list[str]:
    faults = [f"unknown {key}" for key in document if key not in ("traceEvents", "displayTimeUnit", "otherData")]
    events = document["traceEvents"]
    for event in events:
        faults += [f"{problem} in {event}" for problem in _field_faults(event)]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    stacks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    counters: dict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)
    flows: dict[int, list[str]] = defaultdict(list)
    # What has the same time is read in the order of the file.
    for event in sorted((event for event in events if event["ph"] != "M"), key=lambda event: event["ts"]):
        if event["ph"] == "C":
            ((_, value),) = event["args"].items()
            counters[event["pid"], event["name"]].append((event["ts"], value))
            continue
        track = (event["pid"], event["tid"])
        if track not in named:
            faults.append(f"track {track} has no name")
        stack = stacks[track]
        if event["ph"] == "X":
            while stack and _end(stack[-1]) <= event["ts"]:
                stack.pop()
            if stack and _end(event) > _end(stack[-1]):
                faults.append(f"{event} does not nest in {stack[-1]}")
            stack.append(event)
        if event["ph"] in "sf":
            flows[event["id"]].append(event["ph"])
            wanted = "upload" if event["ph"] == "s" else "aggregate into"
            if not stack or not stack[-1]["name"].startswith(wanted) or _end(stack[-1]) < event["ts"]:
                faults.append(f"{event} binds to {stack[-1:]}")
    faults += [f"arrow {number} is {ends}" for number, ends in flows.items() if ends != ["s", "f"]]
    for name, points in counters.items():
        times = [time for time, _ in points]
        if any(b <= a for a, b in pairwise(times)):
            faults.append(f"{name} has two values at one time")
        values = [value for _, value in points]
        if min(values) < 0 or (name[1] != "buffer fill" and values != sorted(values)):
            faults.append(f"{name} falls: {values}")
    return faults


def _end(event: dict[str, Any]) -> int:
    end: int = event["ts"] + event["dur"]
    return end


def _field_faults(event: dict[str, Any]) -> list[str]:
    needed = {
        "M": {"tid", "args"},
        "X": {"tid", "ts", "dur"},
        "i": {"tid", "ts", "s"},
        "C": {"ts", "args"},
        "s": {"tid", "ts", "id", "cat"},
        "f": {"tid", "ts", "id", "cat", "bp"},
    }
    phase = event.get("ph")
    if phase not in needed:
        return [f"unknown phase {phase}"]
    faults = [f"no {key}" for key in ({"name", "pid"} | needed[phase]) - set(event)]
    for key in ("ts", "dur", "pid", "tid", "id"):
        if not isinstance(event.get(key, 0), int) or event.get(key, 0) < 0:
            faults.append(f"{key} is no whole number >= 0")
    if event.get("pid") == 0:
        faults.append("process 0 is taken")
    return faults
