"""Options of local training run everywhere to the same bytes; what they cannot be combined with is refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import one_seed
from asyncfl.base.errors import ScenarioError
from asyncfl.base.files import checkpoint_file
from asyncfl.results.sent_uploads import SentUploads
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.checkpoint import Checkpoints, PausedError
from asyncfl.simulation.limits import memory_bytes
from asyncfl.simulation.workers import started_workers
from tests.algorithms.test_control_variate import assert_same
from tests.extras.live.conftest import SMALL, live
from tests.extras.live.flower.grid import stand_in
from tests.extras.live.flower.test_run_on_grid import over_flower
from tests.extras.live.test_identity import BUFFERED, LEAVING, LOSSY, WORLD, same

LINKS = {**WORLD, "uplink": {**WORLD["uplink"], **LOSSY}, **LEAVING}
TRAININGS: dict[str, dict[str, Any]] = {
    "steps": {"training": {"steps": 3}},
    "adam": {"training": {"optimizer": "adam"}},
    "cosine": {"training": {"schedule": {"shape": "cosine"}}},
    "linear over versions": {"training": {"version_schedule": {"shape": "linear", "warm_up": 2, "end": 0.1}}},
    "dropout": {"model": {"dropout": 0.5}},
    "dropout, module": {"model": {"kind": "lenet", "channels": [2, 3], "hidden": [8], "dropout": 0.5}},
    "own code": {"algorithm": {"kind": "tests.algorithms.own_training:Noisy"}},
    "kept momentum": {"training": {"momentum": 0.9, "state": "kept"}},
    "kept adamw": {"training": {"optimizer": "adamw", "weight_decay": 0.1, "state": "kept"}},
}
KEPT = [name for name in TRAININGS if name.startswith("kept")]


@pytest.fixture(autouse=True)
def _key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_file._key.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def description(name: str, **more: Any) -> dict[str, Any]:
    option = TRAININGS[name]
    training = {**{key: one for key, one in SMALL["training"].items() if key != "epochs"}, **option.get("training", {})}
    model = {**SMALL["model"], **option.get("model", {})}
    algorithm = {"algorithm": option["algorithm"]} if "algorithm" in option else {}
    return {**SMALL, "protocol": BUFFERED, "world": LINKS, "training": training, "model": model, **algorithm, **more}


@pytest.mark.parametrize("name", TRAININGS)
def test_workers_and_interruptions_change_no_byte(name: str, tmp_path: Path) -> None:
    scenario = Scenario.read(description(name, evaluation={"record": "digests", "checkpoint": 1}))
    whole = one_seed(scenario, 0)
    plain = {**SMALL, "protocol": BUFFERED, "world": LINKS, "evaluation": {"record": "digests", "checkpoint": 1}}
    assert not whole.tables["rounds"].equals(one_seed(Scenario.read(plain), 0).tables["rounds"])
    for until in (2, 4):
        with pytest.raises(PausedError):
            one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0, until))
    assert_same(one_seed(scenario, 0, checkpoints=Checkpoints(tmp_path / "seed", scenario, 0)), whole)
    with started_workers(2) as workers:
        assert_same(one_seed(scenario, 0, workers=workers), whole)


@pytest.mark.parametrize("name", TRAININGS)
def test_live_on_virtual_time_it_is_the_simulation(name: str) -> None:
    same(live, description(name))


@pytest.mark.parametrize("name", TRAININGS)
def test_flower_runs_train_by_the_scenario(name: str) -> None:
    with stand_in():
        run, _, _ = over_flower(description(name, protocol={"kind": "sync", "rounds": 3, "participants": 3}, world={}))
    assert run.stopped == "all versions published"
    assert np.isfinite(run.rounds[-1]["test_loss"])


@pytest.mark.parametrize("algorithm", ["scaffold", "feddyn", "mifa"])
def test_algorithms_beside_a_kept_state_run_in_workers(algorithm: str) -> None:
    if algorithm == "scaffold":
        with pytest.raises(
            ScenarioError, match=r"must be fedavg, .* with another optimizer, a schedule, weight_decay or a kept state"
        ):
            Scenario.read(description("kept adamw", algorithm={"kind": algorithm}))
        return
    scenario = Scenario.read(description("kept adamw", algorithm={"kind": algorithm}))
    with started_workers(2) as workers:
        assert_same(one_seed(scenario, 0, workers=workers), one_seed(scenario, 0))


@pytest.mark.parametrize("name", KEPT)
def test_personal_layers_and_a_kept_state_are_carried_together(name: str) -> None:
    settings = description(name)
    scenario = Scenario.read({**settings, "model": {**settings["model"], "personal": ["3.*"]}})
    with started_workers(2) as workers:
        assert_same(one_seed(scenario, 0, workers=workers), one_seed(scenario, 0))


@pytest.mark.parametrize("name", KEPT)
def test_the_memory_for_kept_states_is_in_the_estimate(name: str) -> None:
    kept, fresh = description(name), description(name)
    fresh["training"] = {**fresh["training"], "state": "fresh"}
    more = memory_bytes(Scenario.read(kept)) - memory_bytes(Scenario.read(fresh))
    scenario = Scenario.read(kept)
    vectors = 2 if "adamw" in name else 1
    assert more == 4 * scenario.n_parameters * scenario.data.clients * vectors


def uploads_of(state: str) -> Any:
    training = {"momentum": 0.9, "state": state, "example_clip": 1.0, "example_noise": 2.0, "batch_size": 5}
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 2.0}, "training": training}
    run = simulate_seed(Scenario.read({**SMALL, "protocol": {"kind": "sync", "rounds": 3}, **private}), 0)
    return SentUploads(run).sent(4)


def test_an_upload_with_a_kept_state_counts_for_the_earlier_tasks_of_its_client() -> None:
    """Momentum carries their gradients into it, and its own noise does not hide those."""
    assert not uploads_of("fresh").carried
    kept = uploads_of("kept")
    assert len(kept.carried) == 6 * 2
    assert all(kept.client[row] == kept.client[before] and before < row for row, before in kept.carried)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"evaluation": {"audit": {}}}, r"training.state: must be fresh where twins are trained .* got kept"),
        (
            {"privacy": {"kind": "local_gaussian", "epsilon": 6.0, "noise": "epoch"}},
            "training: must be whole epochs of plain SGD where privacy adds noise after each .* got another optimizer",
        ),
    ],
)
def test_what_a_kept_state_cannot_be_combined_with_is_refused(more: dict[str, Any], message: str) -> None:
    settings = description("kept adamw", **more)
    settings["training"] = {**settings["training"], "gradient_clip": 1.0}
    with pytest.raises(ScenarioError, match=message):
        Scenario.read(settings)
