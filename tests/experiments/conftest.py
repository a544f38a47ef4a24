"""Experiment files, run folders and a results folder made by hand, so that nothing is simulated."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl.experiments.analysis import make_figures, make_tables
from asyncfl.experiments.report import write_report
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import make_verdicts
from tests.experiments.results_folder import EPSILON, marked_up
from tests.experiments.results_folder import write_run as write_uneven_run

BASE: dict[str, Any] = {
    "title": "Loss by budget",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 6, "samples_per_client": 20},
        "protocol": {"kind": "sync", "rounds": 4},
        "privacy": {"kind": "nbafl", "epsilon": 60},
    },
    "axes": {"privacy.epsilon": [50, 60], "protocol.rounds": [2, 4]},
    "variants": {
        "L": {"one": {"privacy.exposures": 1}, "share": {"privacy.exposures": {"kind": "share", "share": 0.5}}}
    },
    "seeds": {"quick": 1, "full": [3, 5]},
    "quick": {"data.samples_per_client": 10, "axes.privacy.epsilon": [60], "variants.L": ["share"]},
    "figure": {"kind": "final", "x": "protocol.rounds", "hue": "privacy.epsilon", "panels": "L"},
    "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls"}],
}


@pytest.fixture
def described() -> dict[str, Any]:
    """A sound experiment as plain values; change it freely."""
    return copy.deepcopy(BASE)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_yaml(description: Any, name: str = "nbafl/fig2") -> Path:
        path = tmp_path / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(description), encoding="utf-8")
        return path

    return write_yaml


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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with two papers, of which one has not been run."""
    place = tmp_path_factory.mktemp("site")
    root, experiment = place / "results", marked_up()
    runs = [({EPSILON: at}, write_uneven_run(root / "runs" / f"{at}", loss, 2)) for at, loss in ((50, 0.7), (60, 0.45))]
    for _, run in runs:
        (run / "scenario.yaml").write_text("seeds: [0, 1]\n")
    folder = root / "quick" / experiment.name
    make_tables(experiment, "quick", runs, folder)
    make_figures(experiment, "quick", folder)
    make_verdicts(experiment, "quick", folder)
    never = marked_up(name="safl/never", source={"paper": "safl"})
    write_report(root, {one.name: one for one in (experiment, never)})
    return root
