"""Run folders and experiments made by hand, so that the analysis is tested without any simulation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from asyncfl.experiment import Experiment

FINAL = {50: 0.70, 60: 0.45, 100: 0.33, float("inf"): 0.31}
SCENARIO = {"protocol": {"kind": "sync", "rounds": 4}}


def write_run(folder: Path, final: float, seeds: int = 6, diverged: tuple[int, ...] = ()) -> Path:
    """A run of four rounds whose loss falls from 2.3 to `final` (+ .001 or so per seed)."""
    folder.mkdir(parents=True)
    rows = []
    for seed in range(seeds):
        for version in range(5):
            loss = 2.3 + (final + 0.001 * seed * final / 0.45 - 2.3) * version / 4
            lost = seed in diverged and version >= 3
            rows.append(
                {
                    "seed": seed,
                    "version": version,
                    "time_s": 10.0 * version,
                    "train_loss": float("nan") if lost else loss,
                    "test_accuracy": 1 - loss / 3,
                    "diverged": lost,
                }
            )
    pd.DataFrame(rows).to_parquet(folder / "rounds.parquet")
    clients = [
        {"seed": s, "client": c, "samples": 10, "exposures_up": c, "exposures_down": 4}
        for s in range(seeds)
        for c in range(3)
    ]
    pd.DataFrame(clients).to_parquet(folder / "clients.parquet")
    summary = {
        "data": {"source": "real", "provenance": "ten hand-made samples"},
        "diverged": list(diverged),
        "notes": ["a note"],
        "seeds": {str(s): {"versions": 4, "exposures": {"assumed": 1, "downlink_versions": 3}} for s in range(seeds)},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def make_run() -> Callable[..., Path]:
    return write_run


@pytest.fixture
def experiment() -> Experiment:
    return make_experiment()


def make_experiment(**fields: Any) -> Experiment:
    described: dict[str, Any] = {
        "title": "Loss by budget",
        "source": {"paper": "nbafl", "figure": 2},
        "scenario": SCENARIO,
        "axes": {"privacy.epsilon": list(FINAL)},
        "figure": {"kind": "curves", "hue": "privacy.epsilon"},
        "tables": [{"rows": "privacy.epsilon"}],
        "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls"}],
        "quick": {"protocol.rounds": 3, "axes.privacy.epsilon": [50, 60]},
        "name": "nbafl/fig2",
    }
    return Experiment.model_validate({**described, **fields})


@pytest.fixture
def runs(tmp_path: Path) -> list[tuple[dict[str, Any], Path]]:
    """One run per budget, six seeds each."""
    return [({"privacy.epsilon": e}, write_run(tmp_path / "runs" / f"{e}", loss)) for e, loss in FINAL.items()]


@pytest.fixture
def new_experiment() -> Callable[..., Experiment]:
    return make_experiment
