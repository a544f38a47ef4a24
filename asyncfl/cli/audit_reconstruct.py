"""`asyncfl audit reconstruct`: images and labels from one overheard upload."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.cli.options import Adversary, Json, Quiet, RunFolder, integer, option
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.cli.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncfl.audit.reconstruction.image_reconstruction import ReconstructedImages


def reconstruct(
    run: RunFolder,
    adversary: Adversary = "eavesdropper",
    client: Annotated[int | None, integer("Client of the upload. Default: the first that was overheard.")] = None,
    task: Annotated[int | None, integer("Task of the upload. Default: the client's first.")] = None,
    method: Annotated[
        Literal["first_layer", "cosine", "l2", "labels"] | None,
        option(
            "Attack: division at a dense first layer, descent on the cosine or L2 distance of gradients, or labels "
            "alone. Default: first_layer where the network allows it, else cosine."
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        option(
            "Attack the upload under noise of this epsilon too; inf: without noise. May be repeated. Default: inf, "
            "10000, 1000, 100 and 10. The upload as it was sent is always attacked."
        ),
    ] = None,
    images: Annotated[int, option("Largest number of images to reconstruct.", min=1, max=1000)] = 16,
    steps: Annotated[int, option("Gradient steps of a descent.", min=1, max=1_000_000)] = 1000,
    most_parameters: Annotated[int, option("Refuse descent on larger networks.", min=1, max=10**9)] = 2_000_000,
    out: Annotated[Path | None, option("Folder for the images and their table. Default: RUN/reconstruction.")] = None,
    seed: Annotated[int | None, integer("Seed of the upload. Default: the run's first.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reconstruct images and labels from one overheard upload.

    Writes a sheet of the true images and their reconstructions, one row for each level of noise, and a table of PSNR
    and SSIM.

    Example: asyncfl audit reconstruct results/runs/HASH --client 3 --epsilon inf --epsilon 100
    """
    from asyncfl.audit.finished_run import FinishedRun
    from asyncfl.audit.reconstruction.image_reconstruction import LEVELS, ReconstructionSettings, write_images
    from asyncfl.audit.reconstruction.image_reconstruction import reconstruct as reconstruct_upload
    from asyncfl.audit.reconstruction.inversion import Inversion
    from asyncfl.audit.reconstruction.upload import choose_task, find_upload

    finished = FinishedRun.load(run)
    chosen = finished.seeds(seed)[0]
    levels = tuple(dict.fromkeys(epsilon)) if epsilon else LEVELS
    if low := [level for level in epsilon or () if not level > 0]:
        raise ScenarioError([Fault("--epsilon", f"must be above 0, or inf for no noise, got {low[0]:g}")])
    attack = ReconstructionSettings(method, images, Inversion(steps=steps), most_parameters)
    attack.check(finished.run.scenario)
    with ProgressBar(finished.run.scenario.model_copy(update={"seeds": (chosen,)}), quiet or json) as bar:
        held = find_upload(finished, chosen, choose_task(finished, chosen, adversary, client, task), bar)
        with finished.compute_settings(chosen):
            pictures = reconstruct_upload(held, attack, [*levels, None], bar.stage)
    provenance = finished.run.summary["data"]["provenance"]
    written = write_images(pictures, provenance, out or finished.folder / "reconstruction")
    (_print_json if json else _print_quality)(finished.folder, chosen, pictures, written)


def _print_quality(run: Path, seed: int, pictures: ReconstructedImages, written: Sequence[Path]) -> None:
    """Print the quality of the images for each level of noise, and the written files."""
    from asyncfl.audit.reconstruction.image_reconstruction import GRANTED, METHODS, level_name
    from asyncfl.base.contact_sheet import decibels

    steps = "1 local step" if pictures.steps == 1 else f"{pictures.steps} local steps, attacked as one"
    print_text(
        f"{run}, seed {seed}: task {pictures.task} of client {pictures.client}, {pictures.samples} images, {steps}; "
        f"{METHODS[pictures.method]}",
        GRANTED,
    )
    has_images = pictures.method != "labels"
    rows: list[list[Any]] = []
    for level in [*pictures.levels, pictures.guess]:
        name = "guess without upload" if level is pictures.guess else level_name(level.epsilon)
        quality = [decibels(level.mean_psnr_db), f"{level.ssim.mean():.3f}", f"{level.ssim.max():.3f}"]
        std = "—" if math.isnan(level.noise_std) else f"{level.noise_std:.3g}"
        rows.append([name, std, *(quality if has_images else []), f"{100 * level.labels_right:.0f} %"])
    quality_names = ["PSNR", "SSIM", "best SSIM"] if has_images else []
    print_table(["noise", "noise std", *quality_names, "labels right"], rows)
    for path in written:
        console.print(f"{path} written")


def _print_json(run: Path, seed: int, pictures: ReconstructedImages, written: Sequence[Path]) -> None:
    guess = pictures.guess
    print_json(
        {
            "run": str(run),
            "seed": seed,
            "client": pictures.client,
            "task": pictures.task,
            "samples": pictures.samples,
            "local_steps": pictures.steps,
            "method": pictures.method,
            "levels": [
                {**row, "epsilon": one.epsilon, "no_noise": one.epsilon == math.inf, "as_sent": one.epsilon is None}
                for row, one in zip(pictures.table.to_dict("records"), pictures.levels, strict=True)
            ],
            "guess": {
                "psnr_db": guess.mean_psnr_db,
                "ssim": float(guess.ssim.mean()),
                "labels_right": guess.labels_right,
            },
            "files": [str(path) for path in written],
        }
    )
