"""What audits with twins of small runs come to, of each scheme and kind of twin, against a written list.

`python tests/twins/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.scenario import Scenario
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("numbers.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 12, "source": "embedded", "test_samples": 50},
    "model": {"kind": "mlp", "hidden": [6]},
    "training": {"lr": 0.1, "batch_size": 5, "epochs": 2},
    "protocol": {"kind": "sync", "rounds": 3},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.5},
        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.1},
    },
    "evaluation": {"audit": {"clients": 2, "twins": 6}, "train_every": 0, "test_every": 0},
}
BUFFERED = {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
FEDAVG = {"kind": "dp_fedavg", "noise_multiplier": 1.5, "clip_norm": 0.5}
STEPS = {"lr": 0.1, "batch_size": 5, "epochs": 2, "example_clip": 1.0, "example_noise": 0.8}
MECHANISMS = {"kind": "mechanisms", "clip": {"target": "update", "norm": 0.3}}
CASES: dict[str, dict[str, Any]] = {
    "no privacy": {},
    "a median that follows the twins": {"privacy": {"kind": "nbafl", "epsilon": 200}},
    "buffers": {"privacy": {"kind": "nbafl", "epsilon": 200, "clip_norm": 0.5}, "protocol": BUFFERED},
    "clients": {"privacy": FEDAVG, "protocol": BUFFERED},
    "noise of the server": {"privacy": {**FEDAVG, "noise_at": "server"}, "protocol": BUFFERED},
    "an adaptive clip": {"privacy": {**FEDAVG, "adaptive": {"quantile": 0.6}}},
    "steps": {"privacy": {"kind": "dp_sgd", "noise_multiplier": 0.8}, "training": STEPS},
    "steps with momentum": {
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 0.8}, "training": {**STEPS, "momentum": 0.9},
        "protocol": BUFFERED,
    },
    "Laplace": {"privacy": {**MECHANISMS, "client": {"kind": "laplace", "epsilon": 3}}},
    "a Gaussian on models": {
        "privacy": {
            **MECHANISMS, "clip": {"target": "model", "norm": 2.0}, "client": {"kind": "gaussian", "epsilon": 3},
            "server": {"kind": "gaussian", "epsilon": 5},
        },
    },
    "budgets that follow the losses": {
        "privacy": {"kind": "adaptive", "budgets": [100.0] * 5, "sensitivity": "2M"}, "protocol": BUFFERED,
    },
    "local noise": {
        "privacy": {"kind": "local_gaussian", "epsilon": 5, "clip_norm": 0.02}, "training.gradient_clip": 0.02,
    },
    "who attacks is not audited": {
        "privacy": FEDAVG, "threats": {"attackers": 2, "attack": {"kind": "sign_flip"}},
        "evaluation.audit": {"clients": 3, "twins": 9, "neighbours": ["ordinary", "zeroed"]},
    },
    "clients by name": {"privacy": FEDAVG, "evaluation.audit": {"clients": [4, 1], "twins": 4}},
}  # fmt: skip


def _audited(changes: dict[str, Any]) -> Any:
    run = simulate(Scenario.read(BASE).override(changes))
    return [sums(run.tables["audit"]), sums(run.tables["ledger"]), run.summary["privacy"], run.summary["notes"]]


CALLS: dict[str, Callable[[], Any]] = {name: partial(_audited, changes) for name, changes in CASES.items()}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=2e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
