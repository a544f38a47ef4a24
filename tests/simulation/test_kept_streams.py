"""Random numbers that a change of the scenario leaves unchanged: each client's in each turn, and the drawn clients."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asyncfl.client import Assignment, Attackers
from asyncfl.client.attack import CraftUploads
from asyncfl.client.batch import Batch
from asyncfl.client.poison import Poison
from asyncfl.client.upload_noise import AddNoise
from asyncfl.learning import Job
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

PARTIAL = {"protocol.participants": 4, "protocol.rounds": 8}
GAUSSIAN = {"privacy": {"kind": "local_gaussian", "epsilon": 8.0, "clip_norm": 1.0}, "training.gradient_clip": 1.0}
ATTACK = {"threats": {"attackers": 2, "attack": {"kind": "gaussian"}}}
SLOW = {"world.uplink": {"latency_s": {"kind": "exponential", "mean": 0.7}, "bandwidth_bps": 1e6}}
LOSSY = {
    "world.uplink": {
        "latency_s": 0.05,
        "bandwidth_bps": 1e6,
        "loss": {"kind": "independent", "probability": 0.2},
        "retransmissions": 8,
    }
}
PER_ROUND = {**ATTACK, "threats.selection": "per_round"}
BUFFERED = {
    "protocol": {"kind": "buffered", "rounds": 8, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}}
}


class Seen:
    """Durations, cohorts, and random draws of tasks of one seed, by (client, turn)."""

    def __init__(self, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: dict[tuple[int, int], NDArray[Any]] = {}
        self.noise: dict[tuple[int, int], NDArray[Any]] = {}
        self.attacks: dict[tuple[int, int], NDArray[Any]] = {}
        job, add_noise, craft = Poison.job, AddNoise._add, CraftUploads.craft

        def watched_job(stage: Poison, assignment: Assignment, attacked: bool) -> Job:
            made = job(stage, assignment, attacked)
            self.batches[assignment.client, assignment.turn] = made.order
            return made

        def watched_noise(stage: AddNoise, batch: Batch, where: NDArray[np.bool_]) -> None:
            before = batch.rows.copy()
            add_noise(stage, batch, where)
            for row in np.flatnonzero(where):
                if batch.std[row]:
                    drawn = (batch.rows[row] - before[row]) / batch.std[row]
                    self.noise[batch.assignments[row].client, batch.assignments[row].turn] = drawn

        def watched_craft(stage: CraftUploads, attackers: Attackers, batch: Batch) -> None:
            craft(stage, attackers, batch)
            for row in np.flatnonzero(batch.attacked):
                one = batch.assignments[row]
                self.attacks[one.client, one.turn] = batch.rows[row] - one.base

        with monkeypatch.context() as patch:
            patch.setattr(Poison, "job", watched_job)
            patch.setattr(AddNoise, "_add", watched_noise)
            patch.setattr(CraftUploads, "craft", watched_craft)
            run = simulate_seed(scenario, 0)
        events = run.events.to_pandas()
        self.trained_s: dict[tuple[int, int], float] = {}
        """(client, turn) -> seconds of its training."""
        turns: dict[int, int] = defaultdict(int)
        turn_of: dict[int, tuple[int, int]] = {}
        began: dict[int, float] = {}
        self.asked: list[int] = []
        """Clients in the order in which they were given tasks."""
        self.cohorts: dict[int, list[int]] = defaultdict(list)
        """Version -> clients that were given it."""
        for event in events.itertuples():
            match event.kind:
                case "dispatched":
                    turn_of[event.task] = event.client, turns[event.client]
                    turns[event.client] += 1
                    self.asked.append(event.client)
                    self.cohorts[event.base_version].append(event.client)
                case "training_started":
                    began[event.task] = event.time_s
                case "trained":
                    self.trained_s[turn_of[event.task]] = event.time_s - began[event.task]


def both(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, *changes: dict[str, Any]) -> list[Seen]:
    device = {
        "world.device": {
            "kind": "lognormal",
            "median_s_per_sample": 0.01,
            "sigma": 0.5,
            "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.5},
        },
        "data.clients": 12,
    }
    return [
        Seen(scenario.override({**device, **({} if "protocol" in change else PARTIAL), **change}), monkeypatch)
        for change in changes
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, LOSSY, id="loss"),
        pytest.param({}, SLOW, id="latency"),
        pytest.param({}, ATTACK, id="attack"),
        pytest.param({}, GAUSSIAN, id="noise"),
        pytest.param(GAUSSIAN, {**GAUSSIAN, **ATTACK}, id="attack-on-noise"),
        pytest.param({**GAUSSIAN, **ATTACK}, {**GAUSSIAN, **ATTACK, **LOSSY}, id="loss-under-attack"),
        pytest.param(PER_ROUND, {**PER_ROUND, **LOSSY}, id="loss-with-attackers-per-round"),
    ],
)
def test_a_change_leaves_cohorts_durations_batches_noise_and_attacks(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], after: dict[str, Any]
) -> None:
    one, other = both(scenario, monkeypatch, before, after)
    assert one.cohorts == other.cohorts
    if ATTACK.items() <= before.items():
        assert one.attacks.keys() == other.attacks.keys()
    _alike(one, other, at_least=20)


def test_a_lost_update_changes_at_most_one_client_of_later_cohorts(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both(scenario, monkeypatch, {}, {**LOSSY, "world.uplink.retransmissions": 1})
    assert one.cohorts != other.cohorts, "a client that was still sending could not be drawn"
    for version, cohort in one.cohorts.items():
        stayed = [client for client in cohort if client in other.cohorts[version]]
        assert len(stayed) >= len(cohort) - 1
        assert other.cohorts[version][: len(stayed)] == stayed
    _alike(one, other, at_least=15)


@pytest.mark.parametrize("change", [LOSSY, SLOW, ATTACK, GAUSSIAN], ids=["loss", "latency", "attack", "noise"])
def test_without_cohorts_too_a_task_s_luck_is_its_client_s_and_turn_s(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    one, other = both(scenario, monkeypatch, BUFFERED, {**BUFFERED, **change})
    _alike(one, other, at_least=12)
    # The k-th task goes to the same client unless that one is busy in one of the two.
    same = [a == b for a, b in zip(one.asked, other.asked, strict=False)]
    assert np.mean(same) > (0.6 if change in (LOSSY, SLOW) else 0.99)


def test_another_protocol_leaves_durations_batches_and_noise(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both(scenario, monkeypatch, GAUSSIAN, {**GAUSSIAN, **BUFFERED})
    _alike(one, other, at_least=15)


def _alike(one: Seen, other: Seen, at_least: int) -> None:
    """Whatever both came to is the same in both."""
    tasks = one.trained_s.keys() & other.trained_s.keys()
    assert len(tasks) >= at_least
    for task in tasks:
        assert one.trained_s[task] == pytest.approx(other.trained_s[task], rel=1e-9)
    assert len({round(one.trained_s[task], 9) for task in tasks}) == len(tasks), "each task has luck of its own"
    for name in ("batches", "noise", "attacks"):
        ours, theirs = getattr(one, name), getattr(other, name)
        shared = ours.keys() & theirs.keys()
        assert len(shared) >= (0 if not (ours and theirs) else 5 if name == "attacks" else at_least)
        for task in shared:
            np.testing.assert_allclose(ours[task], theirs[task], atol=1e-3)
        assert len({ours[task][..., :20].tobytes() for task in shared}) == len(shared)
