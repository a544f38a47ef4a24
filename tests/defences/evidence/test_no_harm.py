"""Federations in which a detector once banned every honest client and no attacker: `evidence` bans no honest one."""

from typing import Any

import pytest

from asyncfl import Scenario, simulate

pytestmark = pytest.mark.long

FEDERATION: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 100, "samples_per_client": 300},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"lr": 0.01, "batch_size": 32, "epochs": 1, "gradient_clip": 1.0},
    "protocol": {
        "kind": "buffered",
        "rounds": 40,
        "buffer": 40,
        "dispatch": {"kind": "constant", "in_flight": 60},
        "selection": {"kind": "fair"},
    },
    "privacy": {"kind": "local_gaussian", "epsilon": 6, "delta": 1e-5, "clip_norm": 1.0},
    "defence": {"detector": {"kind": "evidence"}, "strikes": {"threshold": 2, "window": 3}},
    "evaluation": {"train_every": 0, "test_every": 40},
}


@pytest.mark.parametrize(
    "changes",
    [
        {
            "threats": {"attack": {"kind": "min_max"}, "attackers": 0.45},
            "data.partition": {"kind": "dirichlet", "alpha": 1},
        },
        {"threats": {"attack": {"kind": "backdoor"}, "attackers": 0.45}},
        {"data.partition": {"kind": "quantity"}},
    ],
    ids=["Min-Max, Dirichlet 1", "backdoor, IID", "no attack, quantity skew"],
)
def test_no_honest_client_is_banned(changes: dict[str, Any]) -> None:
    clients = simulate(Scenario.read(FEDERATION).override(changes)).clients
    honest = clients[~clients["attacker"]]
    assert len(honest) == (55 if "threats" in changes else 100)
    assert not honest["banned"].any()
