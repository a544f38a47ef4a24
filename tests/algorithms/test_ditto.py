"""Ditto: clients' own models beside a common one that is FedAvg's."""

from typing import Any

import numpy as np
import pytest

from asyncfl.api import one_seed
from asyncfl.base.errors import ScenarioError
from asyncfl.client import Assignment
from asyncfl.learning.personal_layers import PERSONAL
from asyncfl.scenario import Scenario
from asyncfl.simulation.prepare import ResolvedSeed, prepare
from tests.extras.live.flower.grid import stand_in
from tests.extras.live.flower.test_run_on_grid import over_flower

UNEQUAL: dict[str, Any] = {"partition": {"kind": "dirichlet", "alpha": 0.1}}


def ditto(description: dict[str, Any], pull: float = 0.1, **more: Any) -> Scenario:
    return Scenario.read(description | {"algorithm": {"kind": "ditto", "pull": pull}} | more)


def test_the_common_model_is_that_of_fedavg(description: dict[str, Any]) -> None:
    recorded = {"evaluation": {"record": "digests", "keep": "last"}}
    own = one_seed(ditto(description, **recorded), 0)
    plain = one_seed(Scenario.read(description | {"algorithm": {"kind": "fedavg"}} | recorded), 0)
    assert own.models == plain.models
    when = ["time_s", "kind", "task", "client", "bytes"]
    assert own.tables["events"].select(when).equals(plain.tables["events"].select(when))
    assert not own.tables["rounds"].equals(plain.tables["rounds"])


def test_a_step_of_an_own_model_goes_along_its_gradient_and_towards_the_common_one(description: dict[str, Any]) -> None:
    """One step from v0 with w apart from it: v = v0 - lr (g(v0) + pull (v0 - w))."""
    description["training"] = {"batch_size": "full", "epochs": 1, "lr": 0.05}
    federation = prepare(ResolvedSeed(ditto(description, pull=0.5), 0, 0))
    start = federation.plan.initial
    common = start + np.float32(0.1)
    federation.path.carry_out([Assignment(0, 1, 0, common, download={})], 0, common)
    gradient = federation.learner.gradient(start, *federation.data.client(1))
    wanted = start - 0.05 * (gradient + 0.5 * (start - common))
    np.testing.assert_allclose(federation.path.states.of(1).arrays[PERSONAL], wanted, rtol=0, atol=1e-6)


def test_a_strong_pull_keeps_own_models_at_the_common_one(description: dict[str, Any]) -> None:
    """Two steps of lr pull = 1/2 each, the second at the common model's distance: far apart with a weak pull only."""
    apart = []
    for pull in (10.0, 1e-3):
        federation = prepare(ResolvedSeed(ditto(description, pull=pull), 0, 0))
        start = federation.plan.initial
        common = start + np.float32(1.0)
        federation.path.carry_out([Assignment(0, 1, 0, common, download={})], 0, common)
        apart.append(np.linalg.norm(federation.path.states.of(1).arrays[PERSONAL] - common))
    assert apart[0] < 0.3 * apart[1]


def test_own_models_fit_their_clients_better_than_the_common_one(description: dict[str, Any]) -> None:
    description["data"] |= UNEQUAL | {"samples_per_client": 60}
    description["protocol"] = {"kind": "sync", "rounds": 10}
    losses = []
    for algorithm in ({"kind": "ditto", "pull": 0.01}, {"kind": "fedavg"}):
        run = one_seed(Scenario.read(description | {"algorithm": algorithm, "evaluation": {"clients_every": 10}}), 0)
        losses.append(run.tables["rounds"].to_pandas()["train_loss"].iloc[-1])
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"model": {"kind": "mlp", "hidden": [8], "personal": ["3.*"]}}, "model.personal"),
        ({"evaluation": {"audit": {}}}, "evaluation.audit"),
    ],
)
def test_settings_that_own_models_do_not_go_with_are_refused(
    description: dict[str, Any], more: dict[str, Any], setting: str
) -> None:
    with pytest.raises(ScenarioError, match=f"must be fedavg, .* with {setting}, got ditto"):
        ditto(description, **more)


def test_the_optimiser_that_a_client_keeps_is_that_of_the_common_model(description: dict[str, Any]) -> None:
    description["training"] |= {"momentum": 0.9, "state": "kept"}
    made = []
    for algorithm in ({"kind": "ditto"}, {"kind": "fedavg"}):
        federation = prepare(ResolvedSeed(Scenario.read(description | {"algorithm": algorithm}), 0, 0))
        base = federation.plan.initial
        tasks = [Assignment(turn, 1, turn, base, turn, download={}) for turn in range(3)]
        made.append([federation.path.carry_out([one], one.turn, base).models[0].copy() for one in tasks])
    np.testing.assert_array_equal(*made)


def test_models_of_nodes_stay_with_them() -> None:
    """Over Flower the server has the common model alone: no version is judged, and the common model is FedAvg's."""
    protocol = {"kind": "sync", "rounds": 3, "participants": 3}
    runs = {}
    for algorithm in ({"kind": "ditto"}, {"kind": "fedavg"}):
        with stand_in():
            runs[algorithm["kind"]], _, _ = over_flower({"algorithm": algorithm, "protocol": protocol})
    own, plain = runs["ditto"], runs["fedavg"]
    assert own.stopped == plain.stopped == "all versions published"
    assert np.isnan([row["test_accuracy"] for row in own.rounds]).all()
    assert np.isfinite(plain.rounds[-1]["test_accuracy"])
    assert any("models stay with the clients" in note for note in own.notes)
