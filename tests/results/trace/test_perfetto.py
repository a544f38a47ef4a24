import gzip
import json
from collections import defaultdict
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.base.errors import OutputError
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.perfetto import EpsilonCurve, buffer_spans, epsilon_curves, write_perfetto
from asyncfl.results.storage import Run
from tests.results.trace.conftest import trace_of


def chrome_faults(document: dict[str, Any]) -> list[str]:
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


@pytest.fixture
def document(story: pa.Table, tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "trace.json"
    spent = [EpsilonCurve(3, "server", np.array([0.0, 5.0]), np.array([0.0, 1.5]))]
    written = write_perfetto(story, tasks_of_events(story), path, title="a story", spent=spent, notes=["one", "two"])
    document: dict[str, Any] = json.loads(path.read_text())
    head = '{"displayTimeUnit":"ms","otherData":{"notes": "one; two", "run": "a story"},"traceEvents":['
    assert path.read_text().startswith(head)
    assert written == len(document["traceEvents"])
    return document


def track(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """What stands on the track of that name."""
    events = document["traceEvents"]
    (tid,) = [e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == name]
    return [e for e in events if e.get("tid") == tid and e["ph"] != "M"]


def slices(events: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return [(e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in events if e["ph"] == "X"]


def instants(events: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(e["name"], e["ts"] / 1e6) for e in events if e["ph"] == "i"]


def test_a_trace_follows_the_chrome_format(document: dict[str, Any]) -> None:
    assert chrome_faults(document) == []
    assert document["otherData"] == {"run": "a story", "notes": "one; two"}
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert names == ["a story, seed 3"]


def test_a_task_is_a_slice_with_its_phases_inside_and_its_fate(document: dict[str, Any]) -> None:
    events = track(document, "client 0")
    assert slices(events)[:4] == [("task 0", 0, 4), ("download", 0, 1), ("train", 1, 3), ("upload", 3, 4)]
    assert events[0]["args"] == {"base_version": 0, "fate": "aggregated", "staleness": 0, "version": 1, "weight": 0.5}


def test_an_unfinished_phase_ends_with_its_task_or_the_trace(document: dict[str, Any]) -> None:
    assert slices(track(document, "client 0"))[-3:] == [("task 7", 7, 10.3), ("download", 7, 8), ("train", 8, 10.3)]
    (broken,) = [e for e in track(document, "client 2") if e.get("args", {}).get("finished") is False and e["ts"] > 1e6]
    assert (broken["name"], broken["ts"], broken["dur"]) == ("train", 3e6, 1e6)
    lost = next(e for e in track(document, "client 2") if e["name"] == "download")
    assert lost["args"] == {"finished": False, "bytes": 300, "transmissions": 3}


def test_marks_and_times_offline_are_on_the_clients_tracks(document: dict[str, Any]) -> None:
    assert instants(track(document, "client 1")) == [
        ("retransmitted", 4.8),
        ("overheard", 4.9),
        ("flagged", 5),
        ("banned", 5),
    ]
    assert instants(track(document, "client 2")) == [
        ("retransmitted", 0.5),
        ("retransmitted", 1),
        ("lost", 2),
        ("dropped out", 4),
    ]
    assert ("timed out", 6.5) in instants(track(document, "client 0"))
    assert ("offline", 4, 6) in slices(track(document, "client 2"))
    assert ("offline", 5, 10.3) in slices(track(document, "client 3"))


def test_the_server_scores_and_aggregates_between_versions(document: dict[str, Any]) -> None:
    server = track(document, "server")
    assert slices(server) == [
        ("version 0", 0, 5.5),
        ("aggregate into version 1", 5, 5.5),
        ("version 1", 5.5, 10.3),
        ("score", 9.1, 9.5),
        ("score", 9.5, 9.8),
        ("aggregate into version 2", 9.8, 10.3),
    ]
    assert instants(server) == [("stopped", 10.3)]
    assert slices(track(document, "client 3, scoring")) == [("score", 9.1, 9.5)]
    assert slices(track(document, "client 0, scoring")) == [("score", 9.5, 9.8)]


def test_arrows_lead_from_used_uploads_to_their_aggregations(document: dict[str, Any]) -> None:
    arrows: dict[int, list[float]] = {}
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            arrows.setdefault(event["id"], []).append(event["ts"] / 1e6)
    assert arrows == {0: [3, 5], 1: [8, 9.8]}


def test_counters_show_version_held_updates_and_epsilon(document: dict[str, Any]) -> None:
    points: dict[str, list[tuple[float, float]]] = {}
    for event in document["traceEvents"]:
        if event["ph"] == "C":
            points.setdefault(event["name"], []).append((event["ts"] / 1e6, *event["args"].values()))
    assert points == {
        "version": [(0, 0), (5.5, 1), (10.3, 2)],
        "buffer fill": [(0, 0), (4, 1), (5, 0), (9, 1), (9.8, 0)],
        "spent epsilon (server)": [(0, 0), (5, 1.5)],
    }


def test_a_run_of_several_seeds_follows_the_format_and_is_the_same_each_time(lossy: Run, tmp_path: Path) -> None:
    events = lossy.tables["events"]
    spent, _ = epsilon_curves(lossy.tables["spending"])
    for name in ("a.json", "b.json", "a.json.gz", "b.json.gz"):
        write_perfetto(events, tasks_of_events(events), tmp_path / name, title="lossy", spent=spent)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert (tmp_path / "a.json.gz").read_bytes()[4:8] == bytes(4), "the time at which it was written"
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    document = json.loads((tmp_path / "a.json").read_text())
    assert chrome_faults(document) == []
    found = document["traceEvents"]
    assert sum(e["ph"] == "s" for e in found) == lossy.summary["tasks"]["used"]
    assert sum(e["name"].startswith("task ") for e in found) == lossy.summary["tasks"]["begun"]
    assert {e["name"] for e in found if e["ph"] == "i"} >= {"overheard", "retransmitted", "dropped out", "stopped"}


def test_only_chosen_clients_and_the_server_have_tracks(story: pa.Table, tmp_path: Path) -> None:
    write_perfetto(story, tasks_of_events(story), tmp_path / "t.json", title="some", clients=[2])
    document = json.loads((tmp_path / "t.json").read_text())
    assert chrome_faults(document) == []
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["server", "client 2"]


def test_a_failed_write_leaves_no_file(story: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write"):
        write_perfetto(story, tasks_of_events(story), tmp_path / "nowhere" / "t.json", title="x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        write_perfetto(story, tasks_of_events(story), tmp_path / "folder", title="x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("name", ["thesis.tex", "thesis.tar.gz", "damaged.gz"])
def test_only_a_trace_is_overwritten(story: pa.Table, tmp_path: Path, name: str) -> None:
    precious = gzip.compress(b"precious") if name.endswith(".gz") else b"precious"
    if name == "damaged.gz":
        precious = precious[:10] + b"\xff" * 20
    (tmp_path / name).write_bytes(precious)
    with pytest.raises(OutputError, match="a file of another kind"):
        write_perfetto(story, tasks_of_events(story), tmp_path / name, title="x")
    assert (tmp_path / name).read_bytes() == precious
    (tmp_path / name).unlink()
    write_perfetto(story, tasks_of_events(story), tmp_path / name, title="x")
    write_perfetto(story, tasks_of_events(story), tmp_path / name, title="replaced")


ENTERS = {"task": 0, "client": 1, "staleness": 0, "weight": 1.0}


@pytest.mark.parametrize(
    ("after", "made"),
    [
        # Nothing has happened since: there is no buffer to show.
        ([], []),
        ([(0.0, Kind.TIMER_FIRED, {})], []),
        ([(2.0, Kind.TIMER_FIRED, {})], [(1, 0.0, 2.0, 2.0, 0)]),
        # A version that nothing entered, at the moment of the first.
        ([(0.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 0.0, 0.0, 0)]),
        ([(3.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 3.0, 3.0, 0)]),
        ([(0.0, Kind.AGGREGATED, ENTERS)], [(1, 0.0, 0.0, 0.0, 1)]),
        ([(2.0, Kind.AGGREGATED, ENTERS), (3.0, Kind.PUBLISHED, {"version": 1})], [(1, 0.0, 2.0, 3.0, 1)]),
        (
            [(1.0, Kind.AGGREGATION_STARTED, {}), (2.0, Kind.AGGREGATED, ENTERS), (3.0, Kind.PUBLISHED, {"version": 1}),
             (4.0, Kind.AGGREGATION_STARTED, {"version": 1}), (5.0, Kind.STOPPED, {"version": 1})],
            [(1, 0.0, 1.0, 3.0, 1), (2, 3.0, 4.0, 5.0, 0)],
        ),
    ],
)  # fmt: skip
def test_when_a_buffer_was_filled_decided_and_published(
    after: list[tuple[float, Kind, dict[str, Any]]], made: list[tuple[Any, ...]]
) -> None:
    begun = [(0.0, Kind.PUBLISHED, {}), (0.0, Kind.DISPATCHED, {"task": 0, "client": 1, "base_version": 0})]
    events = trace_of(*begun, *after, version=0)
    assert [astuple(one) for one in buffer_spans(events, Tasks.of(tasks_of_events(events)))] == [
        (*one, []) for one in made
    ]


def spending(**columns: Any) -> pa.Table:
    """The largest epsilon at four versions of seed 3."""
    rows = {
        "seed": [3] * 4,
        "holder": ["largest"] * 4,
        "adversary": ["server"] * 4,
        "time_s": [0.0, 1.0, 2.5, 4.0],
        "exact_epsilon": [0.0, 2.0, 2.0, 3.5],
    }
    return pa.table(rows | columns)


def test_a_curve_has_a_point_wherever_the_largest_epsilon_rises() -> None:
    (found,), missing = epsilon_curves(spending())
    assert (found.seed, found.adversary, missing) == (3, "server", [])
    assert found.time_s.tolist() == [0, 1, 4]
    assert found.epsilon.tolist() == [0, 2, 3.5]


def test_points_of_one_moment_are_kept_in_order() -> None:
    (found,), _ = epsilon_curves(spending(exact_epsilon=[0.5, 0.5, 0.75, 1.5], time_s=[0.0, 0.0, 0.0, 4.0]))
    assert (found.time_s.tolist(), found.epsilon.tolist()) == ([0, 0, 4], [0.5, 0.75, 1.5])


def test_unbounded_and_missing_epsilons_are_named() -> None:
    found, (missing,) = epsilon_curves(spending(exact_epsilon=[0.0, np.inf, np.inf, np.inf]))
    assert (found, missing[:27]) == ([], "seed 3, server: unbounded, ")
    assert epsilon_curves(spending(holder=["model"] * 4)) == ([], ["the run has no rows of clients"])


def test_curves_end_at_the_epsilon_of_the_ledger(lossy: Run) -> None:
    found, missing = epsilon_curves(lossy.tables["spending"])
    assert missing == []
    assert len(found) == 10, "five adversaries, two seeds"
    ledger = lossy.ledger[lossy.ledger["holder"] == "client"]
    ends = ledger.groupby(["seed", "adversary"])["exact_epsilon"].max()
    for part in found:
        assert part.epsilon[-1] == pytest.approx(ends[part.seed, part.adversary])
        assert (np.diff(part.epsilon) > 0).all()
