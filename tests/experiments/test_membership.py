"""An experiment whose runs are attacked by membership inference: from its runs to columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl.api import execute
from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.membership import audit_membership
from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.analysis import make_tables
from asyncfl.experiments.attacks import attack
from asyncfl.experiments.cells import cells
from asyncfl.experiments.csv_files import MEMBERSHIP, read_csv
from asyncfl.experiments.loading import load

DESCRIPTION: dict[str, Any] = {
    "title": "Members",
    "source": {"paper": "nbafl"},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 3, "samples_per_client": 10, "test_samples": 400},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "batch_size": 5, "epochs": 2},
        "protocol": {"kind": "sync", "rounds": 2},
        "privacy": {"kind": "none"},
        "evaluation": {"train_every": 0, "test_every": 0},
    },
    "axes": {"training.epochs": [1, 2]},
    "membership": {"clients": 2, "worlds": 8},
    "seeds": {"quick": 2, "full": 2},
    "claims": [
        {"check": "order", "value": "final membership_area_model_loss", "along": "training.epochs", "says": "it rises"}
    ],
}


def test_from_runs_to_columns(tmp_path: Path) -> None:
    path = tmp_path / "members.yaml"
    path.write_text(yaml.safe_dump(DESCRIPTION), encoding="utf-8")
    experiment = load(path)
    runs = [
        (cell.values, execute(cell.scenario, tmp_path / f"run{number}"))
        for number, cell in enumerate(cells(experiment, "quick"))
    ]
    attack(experiment, runs, tmp_path / "out")
    assert len(pd.read_csv(tmp_path / "out" / MEMBERSHIP)) == 2 * 2 * 3
    make_tables(experiment, "quick", runs, tmp_path / "out")
    ends = read_csv(tmp_path / "out" / "ends.csv").set_index(["training.epochs", "seed"])
    [last] = [folder for values, folder in runs if values == {"training.epochs": 2}]
    told = audit_membership(FinishedRun.load(last), (1,), "server", 2, 8).found.to_pandas().set_index("attack")
    for name, ending in (("loss of the last model", "model_loss"), ("likelihood ratio of uploads", "upload_ratio")):
        assert ends.loc[(2, 1), f"membership_area_{ending}"] == pytest.approx(told.loc[name, "area"])
        assert ends.loc[(2, 1), f"members_found_{ending}"] == told.loc[name, "true_positive_rate"]


def test_without_membership_its_columns_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "members.yaml"
    path.write_text(yaml.safe_dump({**DESCRIPTION, "membership": None}), encoding="utf-8")
    with pytest.raises(ScenarioError, match="there is no column membership_area_model_loss"):
        load(path)
