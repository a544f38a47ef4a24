"""Runs whose tasks are numbers of steps: clock, deadline, and what is accounted for."""

import itertools
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.client import Assignment
from asyncfl.learning.job import Deadline, NoEpochError
from asyncfl.privacy.accounting.accountants import renyi_epsilon
from asyncfl.privacy.accounting.gaussian import exact_epsilon, squared_mu_of
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import prepared, simulate_clock, simulate_seed

DESCRIPTION: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 20, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 4, "steps": 7},
    "protocol": {"kind": "sync", "rounds": 2},
    "world": {"device": {"kind": "listed", "s_per_sample": [0.1, 0.2, 0.5]}},
}
"""Seven steps of four samples: 2.8, 5.6 and 14 seconds."""
CLIPPED = {"training.example_clip": 1.0, "training.example_noise": 2.0}


def scenario(**changes: Any) -> Scenario:
    return Scenario.read(DESCRIPTION).override(changes)


def test_a_task_takes_the_time_of_the_samples_that_it_processes() -> None:
    tasks = Tasks.of(simulate_clock(scenario(), 0).tasks)
    took = tasks.trained_s - tasks.training_started_s
    np.testing.assert_allclose(took, np.array([2.8, 5.6, 14.0])[tasks.client])


def test_a_client_that_does_not_take_all_steps_in_time_gives_up() -> None:
    run = simulate_clock(scenario(**{"training.deadline_s": 6.0, "protocol.rounds": 1}), 0)
    assert (run.fates[Fate.AGGREGATED], run.fates[Fate.DROPPED_OUT]) == (2, 1)


@pytest.mark.parametrize("batches", ["shuffled", "poisson"])
def test_dp_sgd_counts_what_the_steps_release(batches: str) -> None:
    """A sample is in at most one batch of each of the two epochs that seven steps begin, or in each step by chance."""
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 2.0}, "training.batches": batches}
    ledger = SeedLedger(simulate_seed(scenario(**CLIPPED, **private), 0)).ledger.to_pandas()
    rows = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]
    shuffled = float(exact_epsilon(squared_mu_of(1.0, 2 * 2), 1e-5))
    poisson = renyi_epsilon([MechanismEvent("gaussian", 2.0, 2 * 7, 0.2)], 1e-5)
    np.testing.assert_allclose(rows["claimed_epsilon"], shuffled if batches == "shuffled" else poisson, rtol=1e-9)


def test_settings_that_count_epochs_are_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match=r"privacy\.epsilon: must be null with training.steps, got 3"):
        scenario(**CLIPPED, privacy={"kind": "dp_sgd", "epsilon": 3.0})
    noise = {"privacy": {"kind": "local_gaussian", "epsilon": 6.0, "noise": "epoch"}, "training.gradient_clip": 1.0}
    with pytest.raises(ScenarioError, match=r"training: must be whole epochs of plain SGD where .*, got steps"):
        scenario(**noise)


def test_a_task_of_steps_learns() -> None:
    run = simulate_seed(scenario(**{"protocol.rounds": 10, "evaluation": {"train_every": 1}}), 0)
    assert run.rounds[-1]["train_loss"] < run.rounds[0]["train_loss"]


@pytest.mark.parametrize(("seconds", "in_time"), [(5.5, False), (100.0, True)])
def test_a_client_that_trains_in_real_time_sends_all_steps_or_nothing(seconds: float, in_time: bool) -> None:
    """Seven steps of one second each, by the clock of the test; the first epoch has five."""
    federation = prepared(scenario(), 0)
    path, clock = federation.path, itertools.count()
    deadline = Deadline(seconds, lambda: float(next(clock)))
    task = Assignment(0, 0, 0, federation.plan.initial, deadline=deadline)
    if in_time:
        assert path.carry_out([task], 0, task.base).assignments[0].epochs is None
    else:
        with pytest.raises(NoEpochError, match="not all steps were taken by the deadline"):
            path.carry_out([task], 0, task.base)
