"""Which tasks are trained: collected ones, or all if the scheme learns from every task."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from asyncfl.privacy import Contribution, ModelNoise, Noise, PrivacyContext, Scheme, State
from asyncfl.results.run_tables import seed_summary
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun

LOSSY = {"world.uplink.loss": {"kind": "independent", "probability": 0.2}, "world.uplink.retransmissions": 0}


@dataclass
class Heard(State):
    tasks: list[tuple[int, int, float]] = field(default_factory=list)
    collections: list[int] = field(default_factory=list)

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        assert loss > 0
        assert norm > 0
        self.tasks.append((contribution.client, contribution.turn, loss))

    def epsilon(self, client: int, turn: int) -> float | None:
        return 1.0 + sum(one[0] == client for one in self.tasks)

    def record_collection(self, contributions: Any, norms: Any, random: np.random.Generator) -> None:
        self.collections.append(len(contributions))


class Listening(Scheme):
    """Noise of .01 times the client's tasks so far, none on the first."""

    kind: str = "own"
    every: bool = True

    @property
    def needs_every_task(self) -> bool:
        return self.every

    def start(self, context: PrivacyContext) -> State:
        heard.append(Heard())
        return heard[-1]

    def upload_noise(self, context: Any, clip_norm: float | None, contribution: Contribution) -> Noise:
        assert contribution.epsilon is not None
        return Noise(0.001 * (contribution.epsilon - 1))

    def model_noise(self, context: Any, clip_norm: Any, contributions: Any = ()) -> ModelNoise:
        return ModelNoise(0.001 * len(contributions), {one.client: np.inf for one in contributions})


heard: list[Heard] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    heard.clear()


def run_of(scenario: Scenario, scheme: Scheme, changes: dict[str, Any] | None = None) -> SeedRun:
    changed = scenario.override(changes or {})
    return simulate_seed(changed.model_copy(update={"privacy": scheme}), 0)


def test_lost_updates_are_never_trained(scenario: Scenario) -> None:
    run = simulate_seed(scenario.override(LOSSY), 0)
    assert run.fates["lost_up"] > 0
    assert run.trained == run.fates["aggregated"] == run.used
    assert seed_summary(run)["tasks"]["never_needed"] == run.fates["lost_up"]


def test_lost_updates_are_trained_if_the_scheme_learns_from_every_task(scenario: Scenario) -> None:
    run = run_of(scenario, Listening(), LOSSY)
    assert run.fates["lost_up"] > 0
    assert run.trained == sum(run.fates.values()) == len(heard[0].tasks)
    assert sum(heard[0].collections) == run.used == run.fates["aggregated"]
    tasks = seed_summary(run)["tasks"]
    assert (tasks["trained_not_used"], tasks["never_needed"]) == (run.fates["lost_up"], 0)


def test_noise_of_a_task_depends_on_earlier_tasks_only(scenario: Scenario) -> None:
    run = run_of(scenario, Listening(), LOSSY)
    assert sorted(one.task for one in run.uploads) == list(range(run.trained))
    turns = dict.fromkeys(range(5), 0)
    entered = {one.task for model in run.models.values() for one in model.uploads}
    for upload in sorted(run.uploads, key=lambda upload: upload.task):
        assert upload.turn == turns[upload.client]
        assert upload.release.std == pytest.approx(0.001 * upload.turn)
        assert upload.release.epsilon == 1 + upload.turn
        turns[upload.client] += 1
        assert (upload.weight is None) == (upload.task not in entered)
    assert [row["sigma_d"] for row in run.rounds[1:]] == pytest.approx(
        [0.001 * row["participants"] for row in run.rounds[1:]]
    )


def test_training_ahead_gives_the_same_result_as_training_on_demand(scenario: Scenario) -> None:
    ahead, later = run_of(scenario, Listening()), run_of(scenario, Listening(every=False))
    assert [row["train_loss"] for row in ahead.rounds] == pytest.approx([row["train_loss"] for row in later.rounds])
    assert [sorted(state.tasks) for state in heard] == [sorted(heard[0].tasks)] * 2
    assert ahead.events.to_pandas().equals(later.events.to_pandas())


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol.open": {"kind": "quorum", "share": 0.5}},
        {"protocol": {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}},
        {"protocol": {"kind": "fedasync", "rounds": 6, "in_flight": 4, "max_staleness": 0}},
    ],
)
def test_tasks_that_the_server_gave_up_still_count(scenario: Scenario, changes: dict[str, Any]) -> None:
    spread = {"world.device": {"kind": "uniform", "low_s_per_sample": 0.001, "high_s_per_sample": 0.01}}
    run = run_of(scenario, Listening(), {**changes, **spread})
    ended = sum(kind == "trained" for kind in run.events["kind"].to_pylist())
    assert run.trained == ended == len(heard[0].tasks) == len(run.uploads)
    assert run.trained >= run.used
