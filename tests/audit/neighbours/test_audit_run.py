"""Neighbouring data sets are refused where the scheme does not account for the noise of training."""

import re
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.neighbours.audit_run import audit_neighbours
from asyncfl.base.errors import ScenarioError
from asyncfl.evaluation import TwinAudit
from asyncfl.scenario import Scenario

NOISY: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 2, "samples_per_client": 10, "test_samples": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [2]},
    "training": {"batch_size": 10, "epochs": 1, "example_clip": 1.0, "example_noise": 1.5},
    "protocol": {"kind": "sync", "rounds": 1},
}
SCHEMES: dict[str, dict[str, Any]] = {
    "none": {},
    "dp_fedavg": {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 1.0},
    "nbafl": {"kind": "nbafl", "epsilon": 60, "exposures": 1, "clip_norm": 1.0},
}


def message(name: str) -> str:
    return re.escape(
        "training.example_noise: must be 0 where twins are trained (evaluation.audit, asyncfl audit neighbours), "
        "got 1.5: "
        f"privacy.kind {name} does not account for it; set it to 0, or choose dp_sgd, which does"
    )


@pytest.mark.parametrize("name", SCHEMES)
def test_noise_of_training_that_the_scheme_does_not_account_for_is_refused(name: str) -> None:
    privacy = {"privacy": {"kind": name, **SCHEMES[name]}}
    Scenario.read({**NOISY, **privacy})
    with pytest.raises(ScenarioError, match=f"^{message(name)}$"):
        Scenario.read({**NOISY, **privacy, "evaluation": {"audit": {"clients": 1, "twins": 1}}})


def test_a_finished_run_with_such_noise_is_refused(tmp_path: Path) -> None:
    folder = simulate(Scenario.read({**NOISY, "privacy": SCHEMES["dp_fedavg"]})).save(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ScenarioError, match=f"run/scenario.yaml: {message('dp_fedavg')}"):
        audit_neighbours(FinishedRun.load(folder), TwinAudit(clients=1, twins=1), (0,))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_dp_sgd_accounts_for_it() -> None:
    scheme = {"privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 1.5}}
    Scenario.read({**NOISY, **scheme, "evaluation": {"audit": {"clients": 1, "twins": 1}}})
