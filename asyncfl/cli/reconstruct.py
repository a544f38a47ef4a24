"""`asyncfl audit --reconstruct`: how pictures of an overheard upload are told."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar
from asyncfl.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncfl.audit.again import FinishedRun
    from asyncfl.audit.reconstruction.pictures import Pictures


class Holder(StrEnum):
    """Who holds the upload."""

    EAVESDROPPER = "eavesdropper"
    SERVER = "server"


class Method(StrEnum):
    """How images are made."""

    FIRST_LAYER = "first_layer"
    COSINE = "cosine"
    L2 = "l2"
    LABELS = "labels"


def reconstruct_upload(
    finished: FinishedRun,
    seed: int,
    bar: ProgressBar,
    adversary: Holder,
    client: int | None,
    task: int | None,
    method: Method | None,
    epsilon: Sequence[float] | None,
    images: int,
    steps: int,
    most_parameters: int,
    out: Path | None,
    json: bool,
) -> None:
    """Make pictures of one upload of a seed, write and tell them. Raises ScenarioError, RunError and OutputError."""
    from asyncfl.audit.reconstruction.inversion import Inversion
    from asyncfl.audit.reconstruction.overheard import chosen_task, overheard
    from asyncfl.audit.reconstruction.pictures import LEVELS, Reconstruction, reconstruct
    from asyncfl.audit.reconstruction.sheet import write_pictures

    levels = LEVELS if not epsilon else _epsilons_of(epsilon)
    how = Reconstruction(None if method is None else method.value, images, Inversion(steps=steps), most_parameters)
    how.check(finished.run.scenario)
    held = overheard(finished, seed, chosen_task(finished, seed, adversary.value, client, task), bar)
    with finished.conditions(seed):
        pictures = reconstruct(held, how, [*levels, None], bar.stage)
    provenance = finished.run.summary["data"]["provenance"]
    written = write_pictures(pictures, provenance, out or finished.folder / "reconstruction")
    _print_pictures(finished.folder, seed, pictures, written, json)


def _epsilons_of(words: Sequence[float]) -> tuple[float, ...]:
    for value in words:
        if not value > 0:
            raise ScenarioError([Fault("--epsilon", f"must be above 0, or inf for no noise, got {value:g}")])
    return tuple(dict.fromkeys(words))


def _print_pictures(run: Path, seed: int, pictures: Pictures, written: Sequence[Path], json: bool) -> None:
    """The table of an upload's pictures, and where they are."""
    from asyncfl.analysis.contact_sheet import decibels
    from asyncfl.audit.reconstruction.sheet import GRANTED, METHODS, level_name

    if json:
        print_json(_plain(run, seed, pictures, written))
        return
    steps = "1 local step" if pictures.steps == 1 else f"{pictures.steps} local steps, taken for one"
    print_text(
        f"{run}, seed {seed}: task {pictures.task} of client {pictures.client}, {pictures.samples} images, {steps}; "
        f"{METHODS[pictures.method]}"
    )
    print_text(GRANTED)
    has_images = pictures.method != "labels"
    rows: list[list[Any]] = []
    for level in [*pictures.levels, pictures.guess]:
        name = "a guess, without it" if level is pictures.guess else level_name(level.epsilon)
        quality = [decibels(level.mean_psnr_db), f"{level.ssim.mean():.3f}", f"{level.ssim.max():.3f}"]
        std = "—" if math.isnan(level.noise_std) else f"{level.noise_std:.3g}"
        rows.append([name, std, *(quality if has_images else []), f"{100 * level.labels_right:.0f} %"])
    quality_names = ["PSNR", "SSIM", "best SSIM"] if has_images else []
    print_table(["noise", "its deviation", *quality_names, "labels right"], rows)
    for path in written:
        console.print(f"{path} written")


def _plain(run: Path, seed: int, pictures: Pictures, written: Sequence[Path]) -> dict[str, Any]:
    guess = pictures.guess
    return {
        "run": str(run),
        "seed": seed,
        "client": pictures.client,
        "task": pictures.task,
        "samples": pictures.samples,
        "local_steps": pictures.steps,
        "method": pictures.method,
        "levels": [
            {**row, "epsilon": level.epsilon, "no_noise": level.epsilon == math.inf, "as_sent": level.epsilon is None}
            for row, level in zip(pictures.table.to_dict("records"), pictures.levels, strict=True)
        ],
        "guess": {
            "psnr_db": guess.mean_psnr_db,
            "ssim": float(guess.ssim.mean()),
            "labels_right": guess.labels_right,
        },
        "files": [str(path) for path in written],
    }
