"""The workflow's step from runs to attacks on them: membership inference, and images made of overheard uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.experiments.csv_files import MEMBERSHIP, PICTURES, packed, plain, write_csv
from asyncfl.experiments.spec import Experiment, MembershipInference, UploadAttack
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.extras.audit.membership import audit_membership
from asyncfl.extras.audit.reconstruction.image_reconstruction import (
    ReconstructedImages,
    ReconstructionSettings,
    reconstruct,
)
from asyncfl.extras.audit.reconstruction.upload import choose_task, find_upload

Runs = list[tuple[dict[str, Any], Path]]
"""Axis values and run folder of each cell."""


def attack(experiment: Experiment, runs: Runs, folder: Path) -> None:
    """Write `membership.csv` and `pictures.csv` of an experiment that asks for them into `folder`.

    Each run is simulated again; seeds that diverged are left out. Raises RunError where a run cannot be attacked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    attacks: tuple[tuple[str, Callable[..., Any], Any], ...] = (
        (PICTURES, _pictures, experiment.pictures),
        (MEMBERSHIP, _membership, experiment.membership),
    )
    for file, attack_run, asked in attacks:
        if asked is not None:
            rows = []
            for values, place in runs:
                keys = {name: plain(value) for name, value in values.items()}
                run = FinishedRun.load(place)
                seeds = tuple(s for s in run.run.scenario.seeds if s not in run.run.summary["diverged"])
                rows += [keys | row for row in attack_run(run, seeds, asked)]
            write_csv(pd.DataFrame(rows), folder / file)


def _membership(run: FinishedRun, seeds: tuple[int, ...], asked: MembershipInference) -> Any:
    return audit_membership(run, seeds, asked.adversary, asked.clients, asked.worlds).found.to_pylist()


def _pictures(run: FinishedRun, seeds: tuple[int, ...], asked: UploadAttack) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        held = find_upload(run, seed, choose_task(run, seed, asked.adversary))
        with run.compute_settings(seed):
            for method in asked.methods:
                how = ReconstructionSettings(method, asked.images, asked.steps)
                rows += [{"seed": seed, "method": method, **row} for row in _images(reconstruct(held, how, [None]))]
    return rows


def _images(pictures: ReconstructedImages) -> Iterator[dict[str, Any]]:
    [sent] = pictures.levels
    for place in np.argsort(pictures.places).tolist():
        channels, height, width = pictures.true[place].shape
        yield {
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
