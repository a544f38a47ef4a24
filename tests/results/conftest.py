"""A results folder with its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.analysis.test_results import write_run

from asyncfl.experiment import Experiment
from asyncfl.results.figures import make_figures
from asyncfl.results.report import write_report
from asyncfl.results.tables import make_tables
from asyncfl.results.verdicts import make_verdicts

EVIL = "<script>alert('x')</script>"
EPSILON = "privacy.epsilon"
CLAIMS: list[dict[str, Any]] = [
    {"check": "order", "along": EPSILON, "says": f"the loss falls {EVIL}", "why": "a & b"},
    {"check": "order", "along": EPSILON, "says": "the loss rises", "direction": "rises"},
    {"check": "at_least", "value": "final test_accuracy", "threshold": 0.3, "says": "accurate everywhere"},
    {"check": "best_at", "along": EPSILON, "at": 100, "says": "best where nothing is run"},
]


def described(**fields: Any) -> Experiment:
    made: dict[str, Any] = {
        "title": f"Loss {EVIL}",
        "source": {"paper": "nbafl", "figure": 2},
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}},
        "axes": {EPSILON: [50, 60, 100]},
        "figures": [
            {"kind": "curves", "hue": EPSILON, "name": "loss"},
            {"kind": "final", "x": EPSILON, "y": "train_loss", "name": "later", "where": {EPSILON: 100}},
        ],
        "tables": [{"rows": EPSILON}],
        "claims": CLAIMS,
        "quick": {f"axes.{EPSILON}": [50, 60]},
        "name": "nbafl/one",
    }
    return Experiment.model_validate({**made, **fields})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with two papers, of which one has not been run."""
    place = tmp_path_factory.mktemp("site")
    root, experiment = place / "results", described()
    runs = [({EPSILON: at}, write_run(root / "runs" / f"{at}", loss, 2)) for at, loss in ((50, 0.7), (60, 0.45))]
    for _, run in runs:
        (run / "scenario.yaml").write_text("seeds: [0, 1]\n")
    folder = root / "quick" / experiment.name
    make_tables(experiment, "quick", runs, folder)
    make_figures(experiment, "quick", folder)
    make_verdicts(experiment, "quick", folder)
    never = described(name="safl/never", source={"paper": "safl"})
    write_report(root, {one.name: one for one in (experiment, never)})
    return root
