"""A control variate is trained, sent, kept and resumed as its algorithm says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.algorithms import FedAvg
from asyncfl.api import one_seed
from asyncfl.base.arrays import Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import ComponentError, RunError
from asyncfl.base.files import checkpoint_file
from asyncfl.client import Assignment
from asyncfl.learning.learner import Learner
from asyncfl.learning.module import ModuleLearner
from asyncfl.protocol.recording import message_of
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.simulation.checkpoint import Checkpoints, PausedError
from asyncfl.simulation.prepare import ResolvedSeed, prepare
from asyncfl.simulation.workers import started_workers
from tests.algorithms.control_variate import ControlVariate


class Constant(ControlVariate):
    """Clients that add a constant to each gradient."""

    kind: str = "tests.algorithms.test_control_variate:Constant"

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector:
        return np.linspace(-1, 1, len(download["control"]), dtype=np.float32)


class Undeclared(ControlVariate):
    """Clients that send a vector that is not declared."""

    kind: str = "tests.algorithms.test_control_variate:Undeclared"

    def after_training(self, *arguments: Any) -> tuple[dict[str, Vector], ClientState]:
        uploads, state = super().after_training(*arguments)
        return {**uploads, "secret": np.zeros(1, dtype=np.float32)}, state


def assert_same(ours: Run, theirs: Run) -> None:
    for name, table in ours.tables.items():
        assert table.to_pandas().equals(theirs.tables[name].to_pandas()), name
    assert (ours.summary, ours.models, ours.messages) == (theirs.summary, theirs.models, theirs.messages)


@pytest.fixture
def recorded(description: dict[str, Any]) -> Scenario:
    """The scenario with digests of all messages."""
    description["evaluation"] = {"record": "digests", "checkpoint": 1}
    return Scenario.read(description)


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_file._key.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_workers_train_with_controls_to_the_same_bytes(recorded: Scenario) -> None:
    with started_workers(2) as workers:
        there = one_seed(recorded, 0, workers=workers)
    assert_same(there, one_seed(recorded, 0))


def test_an_interrupted_seed_resumes_with_all_controls(recorded: Scenario, tmp_path: Path) -> None:
    for until in (1, 2, 3):
        with pytest.raises(PausedError):
            one_seed(recorded, 0, checkpoints=Checkpoints(tmp_path / "seed", recorded, 0, until))
    found = one_seed(recorded, 0, checkpoints=Checkpoints(tmp_path / "seed", recorded, 0))
    assert_same(found, one_seed(recorded, 0))


def test_controls_change_the_model_and_recordings_name_them(recorded: Scenario, description: dict[str, Any]) -> None:
    plain = one_seed(Scenario.read(description | {"algorithm": FedAvg()}), 0)
    found = one_seed(recorded, 0)
    assert not plain.tables["rounds"].equals(found.tables["rounds"])
    ours, theirs = ("".join(map(str, one.messages)) for one in (found, plain))
    assert '"payloads":{"change":{"digests"' in ours
    assert '"payloads":{"control":{"digests"' in ours
    assert "payloads" not in theirs


def test_the_first_task_of_one_client_is_plain_sgd(description: dict[str, Any]) -> None:
    models = []
    for algorithm in (ControlVariate(), FedAvg()):
        federation = prepare(ResolvedSeed(Scenario.read(description | {"algorithm": algorithm}), 0, 0))
        base = federation.plan.initial
        zero = {"control": np.zeros_like(base)}
        batch = federation.path.carry_out([Assignment(0, 1, 0, base, download=zero)], 0, base)
        models.append(batch.models.copy())
        if batch.payloads:
            steps = 2 * 3
            gradient = (base - batch.models) / np.float32(steps * 0.05)
            np.testing.assert_array_equal(batch.payloads["change"], gradient)
    np.testing.assert_allclose(*models, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "training", [{}, {"momentum": 0.5}, {"proximal_mu": 0.1}, {"gradient_clip": 0.5}, {"example_clip": 0.5}]
)
def test_all_learners_add_the_correction_to_each_step(description: dict[str, Any], training: dict[str, Any]) -> None:
    description["training"] |= training
    scenario = Scenario.read(description | {"algorithm": Constant()})
    federation = prepare(ResolvedSeed(scenario, 0, 0))
    data, base = federation.data, federation.plan.initial
    module: Learner = ModuleLearner(scenario.model, scenario.training, data.shape, data.outputs, "cpu")
    made = []
    for learner in (federation.learner, module):
        federation.path.learner = learner
        zero = {"control": np.zeros_like(base)}
        made.append(federation.path.carry_out([Assignment(0, 1, 0, base, download=zero)], 0, base).models.copy())
        federation.path.states.take(1)
    np.testing.assert_allclose(*made, rtol=0, atol=2e-6)
    assert np.abs(made[0] - base).max() > 0.1


def test_vectors_that_are_not_declared_cannot_be_sent(description: dict[str, Any]) -> None:
    scenario = Scenario.read(description | {"algorithm": Undeclared()})
    with pytest.raises(ComponentError, match="sends payload secret; declared payloads: change"):
        one_seed(scenario, 0)


def test_payloads_without_noise_are_flagged_for_all_who_hold_a_message(scenario: Scenario) -> None:
    ledger = one_seed(scenario, 0).tables["ledger"].to_pandas()
    for adversary in ("server", "both"):
        rows = ledger[(ledger.adversary == adversary) & (ledger.holder == "client")]
        assert (rows["flags"] == "payloads without noise").all()
        assert np.isinf(rows.exact_epsilon).all()
    assert (ledger[ledger.adversary == "eavesdropper"]["flags"] == "").all()


def test_noise_on_updates_does_not_cover_payloads(description: dict[str, Any]) -> None:
    description["privacy"] = {"kind": "dp_fedavg", "noise_multiplier": 5.0}
    tables = [
        one_seed(Scenario.read(description | {"algorithm": algorithm}), 0).tables["ledger"].to_pandas()
        for algorithm in (FedAvg(), ControlVariate())
    ]
    plain, controlled = (one[(one.adversary == "server") & (one.holder == "client")] for one in tables)
    assert np.isfinite(plain.exact_epsilon).all()
    assert np.isinf(controlled.exact_epsilon).all()
    assert controlled["flags"].str.contains("payloads without noise").all()


def test_models_of_a_recording_cannot_be_replayed_with_payloads(recorded: Scenario) -> None:
    hears = {"type": "Collected", "payloads": {"change": {}}, "models": {}}
    with pytest.raises(RunError, match=r"cannot provide the algorithm's payloads \(change\)"):
        message_of(hears, np.zeros((1, 1), dtype=np.float32))
