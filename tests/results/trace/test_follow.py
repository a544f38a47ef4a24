"""One task followed from its dispatch to its fate."""

import pyarrow as pa
import pytest

from asyncfl.base.errors import InputError
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import FATES, Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.follow import follow
from asyncfl.results.storage import Run
from tests.results.trace.conftest import trace_of


def test_an_aggregated_update_is_followed_to_its_publication(story: pa.Table) -> None:
    found = follow(story, tasks_of_events(story), 6)
    assert found.headline == (
        "task 6 of client 2 (seed 3), sent version 0: aggregated into version 2 with weight 0.25, 1 version stale"
    )
    assert found.durations_s == pytest.approx({"download": 1, "training": 1, "upload": 1, "waiting": 0.8, "total": 3.8})
    events = [(step.time_s, step.event) for step in found.steps]
    assert events[0] == (6.0, "dispatched")
    assert found.steps[0].what == "version 0 to client 2"
    assert events[-2:] == [(9.8, "aggregated"), (10.3, "published")]
    scoring = [(step.event, step.took_s, step.what) for step in found.steps[-6:-2]]
    assert scoring == [
        ("scores_requested", None, "client 3 is to score 2 models"),
        ("scored", pytest.approx(0.4), "client 3: no answer"),
        ("scores_requested", None, "client 0 is to score 2 models"),
        ("scored", pytest.approx(0.3), "client 0: 2 models"),
    ]
    assert found.steps[-2].took_s == pytest.approx(0.8)
    assert found.steps[-2].what == "weight 0.25, staleness 1"


def test_a_flagged_update_names_the_reason_and_the_ban(story: pa.Table) -> None:
    found = follow(story, tasks_of_events(story), 1, seed=3)
    assert "flagged when version 1 was made" in found.headline
    description = {step.event: step.what for step in found.steps}
    assert description["flagged"] == "staleness 0, too far"
    assert description["banned"] == "client 1"
    assert description["uploaded"] == "150 bytes sent, in 2 transmissions"
    assert description["retransmitted"] == "transmission 2 on the way up, 50 bytes again"


@pytest.mark.parametrize(
    ("task", "fate", "last", "took_s", "what"),
    [
        (2, "lost down", "lost", 2.0, "on the way down, 300 bytes sent, in 3 transmissions"),
        (3, "dropped out", "dropped_out", None, "because it went offline"),
        (4, "timed out", "uploaded", 1.0, "100 bytes sent"),
        (7, "unfinished", "stopped", None, "all versions published"),
    ],
)
def test_a_task_without_an_aggregated_update_ends_with_its_fate(
    story: pa.Table, task: int, fate: str, last: str, took_s: float | None, what: str
) -> None:
    found = follow(story, tasks_of_events(story), task)
    assert found.headline.endswith(fate)
    assert (found.version, found.weight) == (None, None)
    step = found.steps[-1]
    assert (step.event, step.took_s, step.what) == (last, took_s, what)


@pytest.mark.parametrize(
    ("task", "seed", "message"),
    [
        (5, 3, "task: task 5 never began"),
        (9, 3, r"task: must be 0\.\.7, got 9"),
        (0, 1, r"seed: must be one of the run's \(3\), got 1"),
    ],
)
def test_unknown_tasks_and_seeds_are_refused(story: pa.Table, task: int, seed: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        follow(story, tasks_of_events(story), task, seed)


def test_several_seeds_need_one_to_be_named(lossy: Run) -> None:
    with pytest.raises(InputError, match=r"\(0, 1\), got none"):
        follow(lossy.tables["events"], lossy.tables["tasks"], 0)


def test_every_task_of_a_run_is_followed_to_its_fate(lossy: Run) -> None:
    events = lossy.tables["events"]
    tasks = Tasks.of(tasks_of_events(events)).select(seed=1)
    for task, fate in zip(tasks.task.tolist(), tasks.fate.tolist(), strict=True):
        found = follow(events, tasks_of_events(events), task, seed=1)
        assert found.fate == FATES[fate]
        assert [step.time_s for step in found.steps] == sorted(step.time_s for step in found.steps)
        assert sum(s for name, s in found.durations_s.items() if name != "total") <= found.durations_s["total"] + 1e-9


def test_a_rejected_update_names_the_version_it_was_judged_for() -> None:
    task = {"task": 0, "client": 1, "base_version": 0, "version": 0}
    events = trace_of(
        (0.0, Kind.DISPATCHED, task),
        (1.0, Kind.UPLOADED, task | {"size": 10, "attempt": 1, "detail": "up"}),
        (2.5, Kind.REJECTED, task | {"detail": "not finite"}),
        (2.5, Kind.BANNED, {"client": 1, "version": 0}),
        (3.0, Kind.BANNED, {"client": 1, "version": 0}),
    )
    found = follow(events, tasks_of_events(events), 0)
    assert (found.fate, found.version, found.staleness, found.weight) == ("rejected", 1, None, 0.0)
    assert found.headline == "task 0 of client 1 (seed 0), sent version 0: rejected when version 1 was made"
    assert found.durations_s == {"waiting": 1.5, "total": 2.5}
    assert [(step.time_s, step.event) for step in found.steps[-2:]] == [(2.5, "rejected"), (2.5, "banned")]


@pytest.mark.parametrize(("staleness", "description"), [(0, ""), (1, ", 1 version stale"), (2, ", 2 versions stale")])
def test_a_flagged_update_names_its_staleness(staleness: int, description: str) -> None:
    task = {"task": 0, "client": 1, "base_version": 0}
    flagged = (1.0, Kind.FLAGGED, task | {"version": staleness, "staleness": staleness, "weight": 0.0})
    events = trace_of((0.0, Kind.DISPATCHED, task | {"version": 0}), flagged)
    found = follow(events, tasks_of_events(events), 0)
    assert found.headline.endswith(f": flagged when version {staleness + 1} was made{description}")
