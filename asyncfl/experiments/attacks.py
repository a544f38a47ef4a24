"""The workflow's step from runs to attacks on them: membership inference, and pictures made of overheard uploads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.membership import audit_membership
from asyncfl.audit.reconstruction.image_reconstruction import ReconstructedImages, ReconstructionSettings, reconstruct
from asyncfl.audit.reconstruction.inversion import Inversion
from asyncfl.audit.reconstruction.upload import choose_task, find_upload
from asyncfl.experiments.attack_tables import MEMBERSHIP, PICTURES, packed
from asyncfl.experiments.run_tables import plain, write_csv
from asyncfl.experiments.spec import Experiment


def infer_membership(experiment: Experiment, runs: list[tuple[dict[str, Any], Path]], folder: Path) -> None:
    """Write `membership.csv` (see `asyncfl.experiments.attack_tables`) of the experiment's runs into `folder`.

    runs: axis values and run folder of each cell. Each run is simulated again; seeds that diverged are left out. Raises
    RunError where one cannot be attacked.
    """
    asked = experiment.membership
    assert asked is not None
    rows = []
    for values, place in runs:
        run = FinishedRun.load(place)
        seeds = tuple(seed for seed in run.run.scenario.seeds if seed not in run.run.summary["diverged"])
        found = audit_membership(run, seeds, asked.adversary, asked.clients, asked.worlds).found
        keys = {name: plain(value) for name, value in values.items()}
        rows += [keys | row for row in found.to_pylist()]
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(pd.DataFrame(rows), folder / MEMBERSHIP)


def make_pictures(experiment: Experiment, runs: list[tuple[dict[str, Any], Path]], folder: Path) -> None:
    """Writes `pictures.csv` (see `asyncfl.experiments.attack_tables`) of the experiment's runs into `folder`.

    runs: axis values and run folder of each cell. Each run is simulated again. Raises RunError where one cannot be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for values, place in runs for row in _rows_of(experiment, values, FinishedRun.load(place))]
    write_csv(pd.DataFrame(rows), folder / PICTURES)


def _rows_of(experiment: Experiment, values: dict[str, Any], run: FinishedRun) -> Iterator[dict[str, Any]]:
    asked = experiment.pictures
    assert asked is not None
    keys = {name: plain(value) for name, value in values.items()}
    diverged = run.run.summary["diverged"]
    for seed in (seed for seed in run.run.scenario.seeds if seed not in diverged):
        held = find_upload(run, seed, choose_task(run, seed, asked.adversary))
        with run.compute_settings(seed):
            for method in asked.methods:
                how = ReconstructionSettings(method, asked.images, Inversion(steps=asked.steps))
                yield from _rows(reconstruct(held, how, [None]), keys | {"seed": seed, "method": method})


def _rows(pictures: ReconstructedImages, keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    [sent] = pictures.levels
    for place in np.argsort(pictures.places).tolist():
        channels, height, width = pictures.true[place].shape
        yield keys | {
            "place": int(pictures.places[place]),
            "psnr_db": sent.psnr_db[place],
            "ssim": sent.ssim[place],
            "guess_ssim": pictures.guess.ssim[place],
            "labels_right": sent.labels_right,
            "labels_chance": pictures.guess.labels_right,
            "channels": channels,
            "height": height,
            "width": width,
            "true": packed(pictures.true[place]),
            "made": packed(sent.made[place]),
        }
