"""Experiments whose runs are attacked: from runs to columns, and from uploads to pictures and a contact sheet."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from asyncfl.api import execute
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.experiments.analysis import make_figures, make_tables, measured_pictures
from asyncfl.experiments.attacks import attack
from asyncfl.experiments.cells import cells
from asyncfl.experiments.csv_files import MEMBERSHIP, PICTURES, packed, read_csv, unpacked
from asyncfl.experiments.loading import load
from asyncfl.experiments.spec import Experiment
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.extras.audit.membership import audit_membership
from asyncfl.results.contact_sheet import decibels

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


def read(folder: Path, description: dict[str, Any] = DESCRIPTION, **changes: Any) -> Experiment:
    path = folder / "attacked.yaml"
    path.write_text(yaml.safe_dump({**description, **changes}), encoding="utf-8")
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
    with pytest.raises(
        RunError, match=r"the eavesdropper caught no upload of any client in seed 0; set world\.tap\.uplink: true"
    ):
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


def test_an_image_is_packed_to_256_levels_and_back():
    image = np.linspace(0, 1, 2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_allclose(unpacked(packed(image), (2, 3, 4)), image, atol=0.5 / 255 + 1e-6)
    levels = np.arange(256, dtype=np.float32).reshape(1, 16, 16) / np.float32(255)
    assert np.array_equal(unpacked(packed(levels), (1, 16, 16)), levels)


def test_pictures_of_a_seed_become_one_row():
    told = {"guess_ssim": 0.2, "labels_right": 0.75, "labels_chance": 0.5}
    rows = [
        {"p": 1, "seed": 0, "method": "cosine", "psnr_db": 10.0, "ssim": 0.2, **told},
        {"p": 1, "seed": 0, "method": "cosine", "psnr_db": 20.0, "ssim": 0.4, **told},
        {"p": 1, "seed": 0, "method": "l2", "psnr_db": np.inf, "ssim": 1.0, **told},
        {"p": 2, "seed": 0, "method": "cosine", "psnr_db": 0.0, "ssim": 0.0, **told},
    ]
    measured = measured_pictures(pd.DataFrame(rows), ["p"]).set_index("p")
    assert measured["ssim_cosine"].tolist() == pytest.approx([0.3, 0.0])
    # mean squared errors of 1/10 and 1/100: 0.055 together
    assert measured["psnr_cosine"].tolist() == pytest.approx([-10 * np.log10(0.055), 0.0])
    assert measured.loc[1, "psnr_l2"] == np.inf
    assert np.isnan(measured.loc[2, "ssim_l2"])
    assert measured["ssim_guess"].tolist() == pytest.approx([0.2, 0.2])
    assert measured["labels_read_share"].tolist() == [0.75, 0.75]
    assert measured["labels_chance_share"].tolist() == [0.5, 0.5]


def test_psnr_is_written_to_a_tenth_of_a_decibel():
    assert [decibels(value) for value in (12.34, 28.0, np.inf)] == ["12.3 dB", "28.0 dB", "∞ dB"]


MEMBERS: dict[str, Any] = {
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
    experiment = read(tmp_path, MEMBERS)
    runs = run_all(experiment, tmp_path)
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
    with pytest.raises(ScenarioError, match="there is no column membership_area_model_loss"):
        read(tmp_path, MEMBERS, membership=None)
