"""An experiment whose uploads are attacked: from its runs to pictures, columns and a contact sheet."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl.api import execute
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.experiments.analysis import make_figures, make_tables
from asyncfl.experiments.attacks import attack
from asyncfl.experiments.cells import cells
from asyncfl.experiments.csv_files import PICTURES, read_csv
from asyncfl.experiments.loading import load
from asyncfl.experiments.spec import Experiment

DESCRIPTION: dict[str, Any] = {
    "title": "Pictures",
    "source": {"paper": "audit"},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 3, "samples_per_client": 3, "test_samples": 20},
        "model": {"kind": "mlp", "hidden": [32]},
        "training": {"batch_size": "full", "gradient_clip": 1.0},
        "protocol": {"kind": "sync", "rounds": 1},
        "world": {"uplink": {"latency_s": 0.05, "bandwidth_bps": 1e6}, "tap": {"uplink": True}},
        "privacy": {"kind": "local_gaussian", "epsilon": 10, "clip_norm": 1.0},
        "evaluation": {"train_every": 0, "test_every": 0},
    },
    "axes": {"privacy.epsilon": [10, float("inf")]},
    "pictures": {"methods": ["first_layer", "cosine"], "steps": 5},
    "seeds": {"quick": 2, "full": 2},
    "figures": [
        {"name": "sheet", "kind": "sheet", "rows": "privacy.epsilon", "method": "first_layer"},
        {"name": "ssim", "kind": "final", "x": "privacy.epsilon", "y": "ssim_first_layer"},
    ],
    "claims": [{"check": "order", "value": "final ssim_cosine", "along": "privacy.epsilon", "says": "it falls"}],
}


def read(folder: Path, **changes: Any) -> Experiment:
    path = folder / "pictures.yaml"
    path.write_text(yaml.safe_dump({**DESCRIPTION, **changes}), encoding="utf-8")
    return load(path)


def run_all(experiment: Experiment, folder: Path) -> list[tuple[dict[str, Any], Path]]:
    return [
        (cell.values, execute(cell.scenario, folder / f"run{number}"))
        for number, cell in enumerate(cells(experiment, "quick"))
    ]


def test_from_runs_to_columns_and_a_sheet(tmp_path: Path) -> None:
    experiment = read(tmp_path)
    runs = run_all(experiment, tmp_path)
    out = tmp_path / "quick"
    (out / "other").mkdir(parents=True)
    for name in ("one", "other"):
        attack(experiment, runs, out / name)
    assert (out / "one/pictures.csv").read_bytes() == (out / "other/pictures.csv").read_bytes()
    # 2 values, 2 seeds, 2 methods, 3 images
    assert len(pd.read_csv(out / "one/pictures.csv")) == 24
    make_tables(experiment, "quick", runs, out / "one")
    ends = read_csv(out / "one/ends.csv").set_index(["privacy.epsilon", "seed"])
    assert (ends.loc[float("inf"), "ssim_first_layer"] > ends.loc[10, "ssim_first_layer"] + 0.3).all()
    assert ends["ssim_cosine"].between(-1, 1).all()
    assert ends["labels_read_share"].between(0, 1).all()
    final = read_csv(out / "one/final.csv")
    assert {"ssim_first_layer", "psnr_cosine", "ssim_guess", "labels_chance_share"} <= set(final["metric"])
    drawn = [path.name for path in make_figures(experiment, "quick", out / "one")]
    assert drawn == [f"{name}.{ending}" for name in ("sheet", "ssim") for ending in ("svg", "png", "pdf")]


def test_a_run_without_an_eavesdropper_has_no_pictures(tmp_path: Path) -> None:
    scenario = {**DESCRIPTION["scenario"], "world": {}}
    experiment = read(tmp_path, scenario=scenario, axes={}, figures=[], claims=[])
    with pytest.raises(RunError, match=r"no eavesdropper taps the uplinks; set world\.tap\.uplink: true"):
        attack(experiment, run_all(experiment, tmp_path), tmp_path / "out")


def test_columns_of_methods_that_are_not_asked_for_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"claims\.0\.value: there is no column ssim_cosine"):
        read(tmp_path, pictures={"methods": ["first_layer"]})
    with pytest.raises(ScenarioError, match=r"figures\.0\.method: there is no column ssim_first_layer"):
        read(tmp_path, pictures=None)
    with pytest.raises(ScenarioError, match=r"pictures\.methods"):
        read(tmp_path, pictures={"methods": ["magic"]})


def test_pictures_of_no_runs_are_an_empty_table(tmp_path: Path) -> None:
    for _ in range(2):
        attack(Experiment.model_validate({**DESCRIPTION, "name": "a"}), [], tmp_path / "a" / "folder")
    assert len(read_csv(tmp_path / "a" / "folder" / PICTURES)) == 0
