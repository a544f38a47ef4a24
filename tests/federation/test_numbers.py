"""What small runs come to in which more is asked for than aggregates: all tables, against a written list.

`python tests/federation/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncfl import Scenario, simulate
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("numbers.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 10, "source": "embedded", "test_samples": 30},
    "model": {"kind": "mlp", "hidden": [5]},
    "training": {"lr": 0.05, "batch_size": 5},
    "protocol": {"kind": "buffered", "rounds": 4, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}},
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 0.8},
        "uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6, "loss": {"kind": "independent", "probability": 0.05}},
    },
}  # fmt: skip
ALL_HEARD = {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.02}
RUNS: dict[str, dict[str, Any]] = {
    "curious clients score": {
        "privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 1.0, "curious": [1, 4],
                    "scores": {"std": 0.1}},
        "defence.detector": {"kind": "safl"}, "world.tap": ALL_HEARD, "defence.strikes": {"threshold": 1},
        "threats": {"attackers": 2, "attack": {"kind": "sign_flip"}}, "world.score_s": 0.25,
    },
    "own layers": {
        "model.personal": ["3.*"], "evaluation": {"clients_every": 2, "keep": {"every": 2}, "train_every": 3},
        "threats": {"attackers": 1, "attack": {"kind": "backdoor"}}, "world.dropout": 0.3,
    },
    "regression by a deadline": {
        "data.dataset": "diabetes", "data.source": "auto", "model": {"kind": "linear"},
        "training": {"lr": 0.05, "epochs": 4, "deadline_s": 0.6}, "protocol.partial_work": "normalised",
        "world.power": {"compute_w": 4.0, "send_w": 1.0, "receive_w": 0.5, "idle_w": 0.125},
    },
    "canary clients": {
        "data.canaries": {"count": 3, "unit": "client"}, "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0},
        "protocol": {"kind": "sync", "rounds": 3},
    },
    "compressed both ways": {
        "compression": {"kind": "top_k", "share": 0.2}, "download_compression": {"kind": "quantised", "bits": 6},
        "protocol.selection": {"kind": "oort"}, "world.workers": 2, "world.turnaround_s": 0.1, "seeds": 2,
    },
    "domains": {
        "data.domains": ["mnist", "usps", "svhn"], "data.test_samples": 10, "evaluation.test_every": 2,
        "data.canaries": {"count": 5}, "world.availability": {"kind": "alternating", "on_s": 2, "off_s": 1},
    },
}  # fmt: skip


def _outcome(changes: dict[str, Any]) -> Any:
    run = simulate(Scenario.read(BASE).override(changes))
    told: dict[str, Any] = {name: sums(table) for name, table in run.tables.items()}
    for seed in run.summary["seeds"].values():
        told |= seed | {"learner": seed["learner"]["n_parameters"]}
    kept = {f"{seed} {version}": len(model) for (seed, version), model in run.models.items()}  # type: ignore[arg-type]
    return told | {"notes": run.summary["notes"], "privacy": run.summary["privacy"], "kept": kept}


CALLS: dict[str, Callable[[], Any]] = {name: partial(_outcome, changes) for name, changes in RUNS.items()}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
