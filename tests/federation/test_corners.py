"""Parts of a federation by hand: phases at twice the speed, sums of verdicts, what a seed ends with."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.defences import Verdict
from asyncfl.evaluation import Evaluation
from asyncfl.federation.aggregate_errors import AggregateErrors, aggregate_error
from asyncfl.federation.conclusion import record_attackers, seed_run
from asyncfl.federation.energy import energy
from asyncfl.federation.phases import LinkMessage, MessageEvent, Phase, _until, epochs_done, scoring_phases, task_phases
from asyncfl.federation.resolve import resolve
from asyncfl.federation.round_recorder import RoundRecorder, _due, diverged_at
from asyncfl.federation.run_tables import _budgets, _detection
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.federation.traffic import Traffic
from asyncfl.federation.upload_budgets import budget_columns
from asyncfl.messages import Fate
from asyncfl.scenario import Scenario
from asyncfl.server import Sync
from asyncfl.streams import Streams
from asyncfl.testing import buffer, updates
from asyncfl.trace import Kind, Recorder
from asyncfl.world import World
from asyncfl.world.power import Power

LINK = {"latency_s": 0.5, "bandwidth_bps": 8000.0, "mtu_bytes": 1000}
SLOW = {"device": {"kind": "fixed", "s_per_sample": 0.05}, "uplink": LINK, "downlink": LINK}
LOAD = Workload(np.array([100]), 2, 4000, 4000, 4000)
LOST = {"loss": {"kind": "independent", "probability": 1.0}, "retransmissions": 0}


def test_at_twice_the_speed_all_of_a_message_is_half_as_far_away() -> None:
    transfer: Any = SimpleNamespace(
        resent_at_s=(2.0, 6.0), resent_bytes=(30, 10), overheard=True, overheard_s=5.0,
        sent_by=lambda elapsed_s: ("bytes by", elapsed_s), attempts_by=lambda elapsed_s: ("attempts by", elapsed_s),
    )  # fmt: skip
    sending = LinkMessage(transfer, "up", 2.0)
    assert list(sending.events()) == [
        MessageEvent(1.0, Kind.RETRANSMITTED, 30, 2),
        MessageEvent(3.0, Kind.RETRANSMITTED, 10, 3),
        MessageEvent(2.5, Kind.OVERHEARD, -1, -1),
    ]
    assert sending.broken_off(1.5) == (("bytes by", 3.0), ("attempts by", 3.0))
    transfer.overheard = False
    assert len(list(sending.events())) == 2


def test_all_phases_of_a_task_are_shorter_at_twice_the_speed() -> None:
    draws = World.model_validate(SLOW).start(1, Streams(2)).task(0, 0)
    assert [one.duration_s for one in task_phases(draws, LOAD, 2.0)] == pytest.approx([2.25, 5.0, 2.25])
    short = Workload(np.array([100]), 2, 4000, 4000, 4000, deadline_s=5.0)
    assert [epochs_done(draws, short, speed) for speed in (0.5, 1.0, 2.0)] == [0, 1, 2]
    lost = World.model_validate({**SLOW, "uplink": {**LINK, **LOST}}).start(1, Streams(2)).task(0, 0)
    *_, last = task_phases(lost, LOAD, 2.0)
    # 4 s of packets, and the least time of 1 s in which nothing comes back
    assert (last.ends, last.fails, last.duration_s) == (Kind.LOST, Fate.LOST_UP, pytest.approx(2.5))


def test_who_gives_up_in_a_download_leaves_what_had_left_of_it() -> None:
    down, *_ = task_phases(World.model_validate(SLOW).start(1, Streams(2)).task(0, 0), LOAD, 2.0)
    alone, told = down.given_up(1.25), down.given_up(1.25, (7, 2))
    assert alone.sending is not None
    assert told.sending is not None
    assert alone[:4] == (Kind.DOWNLOAD_STARTED, Kind.DROPPED_OUT, 1.25, Fate.DROPPED_OUT)
    # 2.5 s at the usual speed: two packets of one second each
    assert (alone.sending.transfer.sent_bytes, alone.sending.transfer.attempts) == (2000, 1)
    assert (told.sending.transfer.sent_bytes, told.sending.transfer.attempts) == (7, 2)
    assert (told.sending.transfer.duration_s, told.sending.transfer.delivered) == (2.5, False)


@pytest.mark.parametrize(("until_s", "lasted"), [(5.0, [2.0, 3.0]), (4.0, [2.0, 2.0]), (2.0, [2.0, 0.0]), (1.5, [1.5])])
def test_who_is_done_as_it_would_give_up_is_done(until_s: float, lasted: list[float]) -> None:
    phases = [Phase(Kind.TRAINING_STARTED, Kind.TRAINED, seconds) for seconds in (2.0, 3.0)]
    found = list(_until(iter(phases), until_s, None))
    assert [one.duration_s for one in found] == lasted
    assert (found[-1].fails is None) == (until_s == 5.0)
    passed = iter([1.0, 6.0])
    patient = list(_until(iter(phases), until_s, passed.__next__))
    assert [(one.duration_s, one.patience_s) for one in patient] == [(2.0, until_s - 1), (3.0, 0.0)]


def test_a_request_for_scores_takes_models_down_and_a_number_of_each_up() -> None:
    state = World.model_validate(SLOW).start(1, Streams(2))
    down, scored, up = scoring_phases(state.scoring(0, 0), Workload(np.array([100]), 2, 4000, 50, 60), 3)
    assert [one.duration_s for one in (down, scored, up)] == pytest.approx([12.5, 5.0, 0.524])
    assert [one.name for one in (down, scored, up)] == ["scoring down", "", "scoring up"]
    assert scored.sending is None
    unheard = World.model_validate({**SLOW, "downlink": {**LINK, **LOST}}).start(1, Streams(2))
    assert [one.name for one in scoring_phases(unheard.scoring(0, 0), LOAD, 3)] == ["scoring down"]


COUNTED = (
    "judged",
    "unjudged",
    "true_positives",
    "false_positives",
    "false_negatives",
    "honest_bans",
    "malicious_bans",
)


@pytest.mark.parametrize(
    ("true", "false", "missed", "precision", "recall"),
    [(3, 1, 2, 0.75, 0.6), (0, 0, 2, None, 0.0), (0, 2, 0, 0.0, None), (0, 0, 0, None, None)],
)
def test_verdicts_are_summed_over_versions(
    true: int, false: int, missed: int, precision: float | None, recall: float | None
) -> None:
    row = dict(zip(COUNTED, (9, 1, true, false, missed, 1, 2), strict=True))
    run: Any = SimpleNamespace(rounds=[dict.fromkeys(COUNTED, 0), row, row], attackers=[1, 4])
    assert _detection(run) == {
        **{name: 2 * number for name, number in row.items()},
        "attackers": 2,
        "precision": precision,
        "recall": recall,
    }
    assert _budgets({3: 2.5, 1: 7.0}) == {"spent": 2, "first_s": 2.5, "last_s": 7.0}
    assert _budgets({}) == {"spent": 0, "first_s": None, "last_s": None}


@pytest.mark.parametrize(
    ("diverged", "stopped", "said", "marked"),
    [
        ((False, False, False), "all versions published", "all versions published", (False, False, False)),
        ((False, True, True), "all versions published", diverged_at(1), (False, True, True)),
        ((False, False, False), "diverged: all were rejected", "diverged: all were rejected", (False, False, True)),
    ],
)
def test_a_seed_that_came_to_what_is_not_finite_has_diverged(
    diverged: tuple[bool, ...], stopped: str, said: str, marked: tuple[bool, ...]
) -> None:
    rounds: Any = RoundRecorder.__new__(RoundRecorder)
    rounds.rows = [{"version": version, "diverged": bad} for version, bad in enumerate(diverged)]
    rounds.seed, rounds.by_client = 4, {}
    rounds.scenario = SimpleNamespace(world=SimpleNamespace(power=None))
    rounds.kept = SimpleNamespace(models={2: "a model"}, personal={})
    tasks = SimpleNamespace(fates=dict.fromkeys(Fate, 0) | {Fate.STALE: 3}, used=5)
    executor: Any = SimpleNamespace(tasks=tasks, traffic=Traffic(7, 8))
    run = seed_run(executor, rounds, stopped, pa.table({}), 6, np.array([1, 2]), {1: 0.5})
    assert (run.stopped, run.diverged) == (said, said.startswith("diverged"))
    assert tuple(row["diverged"] for row in run.rounds) == marked
    assert (run.seed, run.trained, run.used, run.spent, run.kept) == (4, 6, 5, {1: 0.5}, {2: "a model"})
    assert run.fates == {fate.value: 3 if fate is Fate.STALE else 0 for fate in Fate}
    assert (run.attackers, run.drawn) == ([], None)
    record_attackers(run, None)
    assert (run.attackers, run.drawn) == ([], None)
    told: Any = SimpleNamespace(members={3, 1}, drawn=None)
    record_attackers(run, told)
    assert (run.attackers, run.drawn) == ([1, 3], None)
    told.drawn = {9, 2}
    record_attackers(run, told)
    assert run.drawn == [2, 9]


@pytest.mark.parametrize(
    ("version", "every", "last", "due"),
    [(4, 2, False, True), (3, 2, False, False), (3, 2, True, True), (3, 0, False, False), (0, 0, False, False),
     (0, 0, True, True), (0, 3, False, True), (1, 1, False, True)],
)  # fmt: skip
def test_every_so_many_versions_and_the_last_are_looked_at(version: int, every: int, last: bool, due: bool) -> None:
    assert _due(version, every, last) is due


def test_budgets_of_uploads_are_told_where_there_are_any() -> None:
    path: Any = SimpleNamespace(
        state=SimpleNamespace(epsilon=lambda client, turn: 1.0),
        context="the context",
        scheme=SimpleNamespace(upload_noise=lambda context, norm, one: SimpleNamespace(std=norm * one.epsilon)),
    )
    model: Any = SimpleNamespace(clip_norm=2.0, contributions=[SimpleNamespace(epsilon=e) for e in (3.0, 1.0, 0.5)])
    assert list(budget_columns(path, model).values()) == [1.5, 0.5, 3.0, 4.5, 3.0]
    for nothing in (None, SimpleNamespace(clip_norm=2.0, contributions=[SimpleNamespace(epsilon=None)])):
        assert all(math.isnan(one) for one in budget_columns(path, nothing).values())  # type: ignore[arg-type]
    path.state.epsilon = lambda client, turn: None
    assert budget_columns(path, model) == {}


def test_a_buffer_of_which_nothing_is_used_is_as_far_off_as_its_honest_updates_are() -> None:
    measures = AggregateErrors(Sync(rounds=1), lambda task, client: False)
    held = buffer(updates(4, 3), clients=range(4))
    mean = held.deltas.astype(np.float64).mean(0)
    nobody = Verdict(np.ones(4, dtype=bool), np.zeros(4, dtype=bool))
    outcome: Any = SimpleNamespace(model=held.current)
    measures(held, (0, 1, 2, 3), nobody, outcome)
    found = measures.columns(held.version + 1)
    assert found["aggregate_error"] == pytest.approx(mean @ mean)
    assert found["attackers_weight"] == 0
    assert all(math.isnan(one) for one in measures.columns(held.version + 1).values()), "it is told once"
    # One update, of four of equal size, moves the model by itself alone whatever the factor is that it has.
    one = Verdict(np.arange(4) != 2, np.zeros(4, dtype=bool), weights=np.full(4, 0.25))
    outcome.model = (held.current + 0.25 * held.deltas[2]).astype(np.float32)
    measures(held, (0, 1, 2, 3), one, outcome)
    off = held.deltas[2].astype(np.float64) - mean
    assert measures.columns(held.version + 1)["aggregate_error"] == pytest.approx(off @ off, rel=1e-4)


def test_updates_that_weigh_nothing_have_no_attackers_among_them() -> None:
    found = aggregate_error(np.array([[1.0], [2.0]]), np.zeros(2), np.array([False, True]), np.zeros(1))
    assert all(math.isnan(one) for one in found.values())


def test_a_device_is_idle_up_to_the_end_of_a_run_of_half_a_second() -> None:
    book, task = Recorder(seed=0), {"task": 0, "client": 0, "base_version": 0}
    book.add(0.0, Kind.DISPATCHED, **task)
    book.add(0.125, Kind.TRAINING_STARTED, **task)
    book.add(0.25, Kind.TRAINED, **task)
    book.add(0.5, Kind.STOPPED)
    found = energy(book.table(), 2, Power(compute_w=8.0, send_w=1.0, receive_w=1.0, idle_w=2.0))
    assert {name: one.tolist() for name, one in found.items()} == {
        "energy_compute_j": [1.0, 0.0],
        "energy_send_j": [0.0, 0.0],
        "energy_receive_j": [0.0, 0.0],
        "energy_idle_j": [0.75, 1.0],
    }


def test_a_run_that_settles_a_scheme_is_of_this_seed_and_judges_nothing(scenario: Scenario) -> None:
    asked: list[Any] = []

    def uploads(first: Scenario, seed: int) -> list[Any]:
        asked.append((first, seed))
        return []

    private = {"kind": "adaptive", "budgets": [2.0] * 5, "clip_norm": 5.0, "equal_spend": "naive"}
    control = scenario.override({"privacy": private, "seeds": 3})
    prior: Any = SimpleNamespace(uploads=uploads)
    found = resolve(control, 2, prior)
    [(first, seed)] = asked
    assert (first.evaluation, first.seeds, seed) == (Evaluation(train_every=0, test_every=0), (2,), 2)
    assert control.privacy.reference is not None
    assert first.privacy == control.privacy.reference.scheme
    assert (found.scenario.privacy.reference, found.seed, found.calibration) == (None, 2, ())
