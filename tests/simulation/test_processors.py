"""Clients and server that share processors or places on a machine: they slow each other down, or wait."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.defences import Safl
from asyncfl.protocol.event_query import select
from asyncfl.protocol.tasks import Tasks
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.simulation.seed_run import SeedRun

BUFFERED: dict[str, Any] = {
    "kind": "buffered", "rounds": 8, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4},
}  # fmt: skip


def scenario(protocol: dict[str, Any] | None = None, **world: Any) -> Scenario:
    """Trainings that take 1 s on a processor of one's own."""
    return Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 10, "source": "embedded"},
            "model": {"kind": "mlp", "hidden": [4]},
            "training": {"epochs": 1},
            "protocol": protocol or {"kind": "sync", "rounds": 4},
            "evaluation": {"test_every": 1},
            "world": {"device": {"kind": "fixed", "s_per_sample": 0.1}, **world},
        }
    )


def clock(protocol: dict[str, Any] | None = None, **world: Any) -> SeedRun:
    return simulate_clock(scenario(protocol, **world), 0)


def rounds_s(run: SeedRun) -> Any:
    return np.diff([row["time_s"] for row in run.rounds])


@pytest.mark.parametrize("workers", [1, 2, 6, None])
def test_on_one_processor_a_round_takes_all_work_together_however_many_places_there_are(workers: int | None) -> None:
    server = {"aggregate_s": 0.5, "evaluate_s": 0.25, "evaluate_beside": True}
    run = clock(workers=workers, processors=1, **server)
    # Version n is evaluated while the clients train for the next: 6 trainings, an aggregation, an evaluation.
    assert rounds_s(run) == pytest.approx([6 + 0.5 + 0.25] * 4)
    before = clock(workers=workers, processors=1, aggregate_s=0.5, evaluate_s=0.25)
    assert rounds_s(before) == pytest.approx([6 + 0.5 + 0.25] * 4)


def test_more_at_work_than_processors_are_slowed_down_alike() -> None:
    # Six trainings on 1.5 processors take 6 / 1.5 s, on four 6 / 4 s, on more than there are clients 1 s.
    for processors, round_s in ((1.5, 4), (4, 1.5), (6, 1), (100, 1)):
        assert rounds_s(clock(processors=processors)) == pytest.approx([round_s] * 4)
    # Two of them on two places: alone on their processors, three turns of 1 s; on 1.25 processors 1.6 s each.
    assert rounds_s(clock(workers=2, processors=2)) == pytest.approx([3] * 4)
    assert rounds_s(clock(workers=2, processors=1.25)) == pytest.approx([4.8] * 4)


def test_an_evaluation_beside_the_run_takes_its_share_by_hand() -> None:
    """Two places and two processors: while 0.5 s of evaluation are done at 2/3 of the speed, so are the trainings."""
    run = clock(workers=2, processors=2, evaluate_s=0.5, evaluate_beside=True)
    assert rounds_s(run) == pytest.approx([3 + 0.5 / 2] * 4)
    tasks = Tasks.of(run.tasks)
    first = tasks.only(tasks.base_version == 0)
    assert sorted(first.trained_s.tolist()) == pytest.approx([1.25, 1.25, 2.25, 2.25, 3.25, 3.25])


def test_a_version_waits_for_the_clients_that_evaluate_it() -> None:
    server = {"aggregate_s": 0.5, "evaluate_s": 0.25, "evaluate_at": "clients"}
    # Each on a processor of its own; then six trainings, an aggregation and six evaluations on two processors.
    assert rounds_s(clock(**server)) == pytest.approx([1 + 0.5 + 0.25] * 4)
    assert rounds_s(clock(processors=2, **server)) == pytest.approx([6 / 2 + 0.5 + 6 * 0.25 / 2] * 4)
    assert rounds_s(clock(processors=2, **{**server, "aggregate_s": 0.0})) == pytest.approx([6 / 2 + 6 * 0.25 / 2] * 4)


def test_trainings_slow_down_the_clients_that_evaluate_by_hand() -> None:
    """Client 0 ends its task of 1 s first and begins another: six train and six evaluate on six processors."""
    devices = {"kind": "listed", "s_per_sample": [0.1, *[10.0] * 5]}
    protocol = {**BUFFERED, "buffer": 1, "rounds": 1, "dispatch": {"kind": "constant", "in_flight": 6}}
    run = clock(protocol, device=devices, processors=6, evaluate_s=0.5, evaluate_at="clients")
    assert run.rounds[-1]["time_s"] == pytest.approx(1 + 0.5 * (6 + 6) / 6)


def test_only_clients_that_are_online_evaluate(tmp_path: Path) -> None:
    """Six trainings on two processors end at 3 s, the aggregation at 4 s; three of the clients leave before."""
    times = tmp_path / "times.csv"
    times.write_text("device,from_s,until_s\n" + "".join(f"{one},0,{99 if one < 3 else 3.5}\n" for one in range(6)))
    here = {"kind": "csv", "path": str(times), "rows": "in_order"}
    server = {"aggregate_s": 1.0, "evaluate_s": 0.5, "evaluate_at": "clients", "processors": 2}
    run = clock({"kind": "sync", "rounds": 1}, availability=here, **server)
    assert run.rounds[-1]["time_s"] == pytest.approx(4 + 3 * 0.5 / 2)


def test_clients_cannot_evaluate_a_version_beside_the_run() -> None:
    with pytest.raises(
        ScenarioError, match=r"world\.evaluate_beside: must be false, got true: a version that clients evaluate"
    ):
        scenario(evaluate_s=1.0, evaluate_at="clients", evaluate_beside=True)


def test_enough_shared_processors_change_nothing() -> None:
    world: dict[str, Any] = {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.1, "sigma": 0.5},
        "availability": {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 6}, "off_s": 2.0},
        "workers": 3, "turnaround_s": 0.1, "aggregate_s": 0.2, "dropout": 0.1, "dropout_per_s": 0.05,
        "uplink": {"latency_s": 0.3, "server_bandwidth_bps": 1e5},
    }  # fmt: skip
    protocol = {**BUFFERED, "rounds": 20}
    alone, roomy = clock(protocol, **world), clock(protocol, processors=50, **world)
    told = ("kind", "task", "client", "version", "staleness", "bytes", "attempt", "detail")
    kinds = alone.events["kind"].to_pylist()
    assert {"dropped_out", "went_offline"} <= set(kinds)
    assert roomy.events.select(told).to_pylist() == alone.events.select(told).to_pylist()
    assert roomy.events["time_s"].to_numpy() == pytest.approx(alone.events["time_s"].to_numpy())


def test_clients_that_score_take_their_share(federation: Any) -> None:
    """On one processor that is never idle, the time is the sum of all finished work, plus unfinished work."""
    protocol = {"rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
    world = {"device": {"kind": "fixed", "s_per_sample": 0.01}, "evaluation_cost": 1.0}
    driver = federation(protocol, {**world, "processors": 1}, detector=Safl())
    driver.run()
    events = driver.clock.recorder.table()
    trained, scored = (select(events, kinds=[kind]) for kind in ("trained", "scores_requested"))
    models = sum(int(said.split()[0]) for said in scored["detail"].to_pylist())
    done_s = float(len(trained) + models)
    assert models >= 8
    assert done_s <= driver.clock.now <= done_s + 4
    roomy, alone = (federation(protocol, {**world, **more}, detector=Safl()) for more in ({"processors": 9}, {}))
    assert roomy.run() == alone.run()
    assert roomy.instruments[0].published_at == [
        (version, pytest.approx(at)) for version, at in alone.instruments[0].published_at
    ]


@pytest.mark.parametrize("processors", [None, 50])
def test_no_task_begins_during_an_exclusive_aggregation(processors: float | None) -> None:
    protocol = {**BUFFERED, "buffer": 3, "rounds": 30}
    world = {
        "aggregate_s": 0.2,
        "processors": processors,
        "device": {"kind": "fixed", "s_per_sample": 0.1, "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.3}},
    }
    goes_on, alone = (clock(protocol, **world, aggregate_alone=one) for one in (False, True))
    for run in (goes_on, alone):
        given, aggregates, published = (
            select(run.events, kinds=[kind])["time_s"].to_numpy()
            for kind in ("dispatched", "aggregation_started", "published")
        )
        assert published[1:] - aggregates[: len(published) - 1] == pytest.approx([0.2] * 30)
        within = [((began <= given) & (given < began + 0.2 - 1e-9)).sum() for began in aggregates]
        assert (max(within) == 0) == (run is alone)
    # A task that is under way when a version comes out is a version older then: three of four that are allowed, for the
    # last that came has no successor yet; else all four, and those that have come while it was made.
    staleness = [np.mean([row["staleness_mean"] for row in run.rounds[6:]]) for run in (alone, goes_on)]
    assert staleness[0] == pytest.approx(3 / 3, abs=0.05)
    assert staleness[1] > 4 / 3


def test_an_aggregation_is_logged_once_despite_separate_evaluation() -> None:
    world = {"aggregate_s": 0.3, "aggregate_alone": True, "evaluate_s": 0.2}
    run = clock({**BUFFERED, "buffer": 3, "rounds": 6}, **world)
    began, published = (
        select(run.events, kinds=[kind])["time_s"].to_numpy() for kind in ("aggregation_started", "published")
    )
    assert published[1:] - began == pytest.approx([0.5] * 6)


@pytest.mark.parametrize(("workers", "round_s"), [(None, 1), (6, 1), (3, 2), (2, 3), (4, 2), (1, 6)])
def test_equal_clients_share_places_in_turns(workers: int | None, round_s: float) -> None:
    published = [row["time_s"] for row in clock(workers=workers).rounds]
    assert published == pytest.approx([round_s * number for number in range(5)])


def test_a_place_stands_empty_between_two() -> None:
    published = [row["time_s"] for row in clock(workers=2, turnaround_s=0.25).rounds]
    # three turns of 1 s with two pauses between them; the pause after the third is over when the next round begins
    assert np.diff(published) == pytest.approx([3.5, 3.75, 3.75, 3.75])


def test_waiting_for_a_place_does_not_count_towards_dropout() -> None:
    """Waiting does not count as time at the task, whether or not links are shared."""
    alone, shared = (
        Tasks.of(clock(workers=1, dropout_per_s=0.3, uplink={"latency_s": 0.5, "server_bandwidth_bps": bps}).tasks)
        for bps in (math.inf, 1e18)
    )
    assert len(set(alone.fate.tolist())) == 2  # some are aggregated, some given up
    assert shared.fate.tolist() == alone.fate.tolist()
    np.testing.assert_allclose(shared.end_s, alone.end_s)


def test_waiting_clients_train_in_order_of_arrival() -> None:
    tasks = Tasks.of(clock(workers=2).tasks)
    first = tasks.only(tasks.base_version == 0)
    assert sorted(first.training_started_s.tolist()) == pytest.approx([0, 0, 1, 1, 2, 2])
    assert (first.downloaded_s == 0).all()
    order = np.argsort(first.training_started_s, kind="stable")
    assert first.task[order].tolist() == sorted(first.task.tolist())
