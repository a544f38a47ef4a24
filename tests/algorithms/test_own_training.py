"""An algorithm of one's own may replace local training whole."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.algorithms import LocalTask, Payload, Payloads
from asyncfl.api import one_seed
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.disclosure import PAYLOADS, Leak, Released
from asyncfl.base.errors import ScenarioError
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.testing import check_algorithm
from tests.algorithms.own_training import Noisy, PlainSteps
from tests.algorithms.test_control_variate import assert_same
from tests.extras.live.conftest import SMALL

PLAIN = {"kind": "tests.algorithms.own_training:PlainSteps"}
LENET = {"kind": "lenet", "channels": [2, 3], "hidden": [8]}


@pytest.mark.parametrize("model", [SMALL["model"], LENET])
@pytest.mark.parametrize("training", [{"epochs": 2}, {"steps": 3, "schedule": {"shape": "linear"}}])
def test_own_code_for_plain_steps_gives_the_run_of_fedavg(model: dict[str, Any], training: dict[str, Any]) -> None:
    described = {**SMALL, "model": model, "training": {"lr": 0.1, "batch_size": 10, **training}}
    own, plain = (
        simulate_seed(Scenario.read({**described, "algorithm": one}), 0) for one in (PLAIN, {"kind": "fedavg"})
    )
    for mine, theirs in zip(own.rounds, plain.rounds, strict=True):
        for column in ("train_loss", "test_loss", "time_s"):
            assert mine[column] == pytest.approx(theirs[column], rel=1e-4, nan_ok=True)


def test_training_noise_and_states_of_own_code_are_the_same_in_each_run() -> None:
    scenario = Scenario.read({**SMALL, "algorithm": {"kind": "tests.algorithms.own_training:Noisy"}})
    runs = [one_seed(scenario, 0) for _ in range(2)]
    assert_same(*runs)
    assert np.isfinite(runs[0].tables["rounds"].to_pandas()["train_loss"]).all()


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"training": {"deadline_s": 5.0}}, "training.deadline_s"),
        ({"training": {"momentum": 0.9, "state": "kept"}}, "training.state: kept"),
        ({"model": {**SMALL["model"], "personal": ["3.*"]}}, "model.personal"),
        (
            {
                "training": {"example_clip": 1.0, "example_noise": 1.1},
                "privacy": {"kind": "dp_sgd", "noise_multiplier": 1.1},
            },
            "a privacy scheme that accounts for noise in training",
        ),
        (
            {
                "training": {"gradient_clip": 1.0},
                "privacy": {"kind": "local_gaussian", "epsilon": 6.0, "clip_norm": 1.0},
            },
            "a privacy scheme whose noise is for gradients clipped in training",
        ),
    ],
)
def test_what_own_code_does_not_hold_is_refused(more: dict[str, Any], setting: str) -> None:
    with pytest.raises(ScenarioError, match=f"algorithm.kind: must be fedavg, .* with {setting}"):
        Scenario.read({**SMALL, "algorithm": PLAIN, **more})


def test_sound_training_code_keeps_the_laws() -> None:
    check_algorithm(PlainSteps())
    check_algorithm(Noisy())


class LossSender(PlainSteps):
    """Upload the loss of the training beside the update, as q-FedAvg does."""

    kind: str = "tests.algorithms.test_own_training:LossSender"
    carries = ("loss",)

    def payloads(self, n_parameters: int) -> Payloads:
        return Payloads((Payload("loss", 1, Leak(PAYLOADS, Released("noise drawn in training"))),))

    def train(self, task: LocalTask) -> Vector:
        update = super().train(task)
        task.carried = ClientState({}, {"loss": task.loss})
        return update

    def after_training(
        self, state: ClientState, download: Mapping[str, Vector], base: Vector, trained: Vector, steps: int, lr: float
    ) -> tuple[dict[str, Vector], ClientState]:
        return {"loss": np.array([state.scalars["loss"]], np.float32)}, state


def test_after_training_is_given_what_train_has_carried() -> None:
    check_algorithm(LossSender())
    run = one_seed(Scenario.read({**SMALL, "algorithm": {"kind": LossSender().kind}}), 0)
    assert run.summary["seeds"]["0"]["fates"]["aggregated"] == 18


class Faulty(PlainSteps):
    kind: str = "tests.algorithms.test_own_training:Faulty"
    fault: str

    def train(self, task: LocalTask) -> Vector:
        update = super().train(task)
        match self.fault:
            case "length":
                return update[1:]
            case "inputs":
                task.inputs.zero_()
            case "random":
                return update + np.random.default_rng().normal(size=update.shape).astype(np.float32)
            case "entry":
                task.carried = ClientState({"other": update})
            case "infinite":
                return update / 0 if torch.is_tensor(update) else np.full_like(update, np.inf)
        return update


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("length", "train"),
        ("inputs", "train must not change task.inputs"),
        ("random", "train must be a function of its task"),
        ("entry", "task.carried must have"),
        ("infinite", "train"),
    ],
)
def test_faulty_training_code_is_told_the_law_that_it_violates(fault: str, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_algorithm(Faulty(fault=fault))


def test_a_run_says_which_fields_its_own_training_leaves_to_itself() -> None:
    run = simulate_seed(Scenario.read({**SMALL, "algorithm": PLAIN}), 0)
    assert any("trains by code of its own" in note for note in run.notes)


def test_a_proximal_term_that_overshoots_is_told() -> None:
    for alpha, told in ((5.0, False), (30.0, True)):
        algorithm = {"kind": "feddyn", "alpha": alpha}
        run = simulate_seed(Scenario.read({**SMALL, "training": {"lr": 0.1}, "algorithm": algorithm}), 0)
        assert any("proximal term is 3:" in note for note in run.notes) is told
