"""Experiment files, run folders and a results folder made by hand, so that nothing is simulated."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.experiments.analysis import make_figures, make_tables
from asyncfl.experiments.report import write_report
from asyncfl.experiments.verdicts import make_verdicts
from tests.experiments.results_folder import EPSILON, FINAL, marked_up, write_run

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


@pytest.fixture
def runs(tmp_path: Path) -> list[tuple[dict[str, Any], Path]]:
    """One run per budget, six seeds each."""
    return [({EPSILON: e}, write_run(tmp_path / "runs" / f"{e}", loss)) for e, loss in FINAL.items()]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with two papers, of which one has not been run."""
    place = tmp_path_factory.mktemp("site")
    root, experiment = place / "results", marked_up()
    runs = [({EPSILON: at}, write_run(root / "runs" / f"{at}", loss, 2)) for at, loss in ((50, 0.7), (60, 0.45))]
    for _, run in runs:
        (run / "scenario.yaml").write_text("seeds: [0, 1]\n")
    folder = root / "quick" / experiment.name
    make_tables(experiment, "quick", runs, folder)
    make_figures(experiment, "quick", folder)
    make_verdicts(experiment, "quick", folder)
    never = marked_up(name="safl/never", source={"paper": "safl"})
    write_report(root, {one.name: one for one in (experiment, never)})
    return root
