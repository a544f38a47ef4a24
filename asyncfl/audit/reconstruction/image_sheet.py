"""Files of a reconstruction: a sheet of images, and a table."""

from __future__ import annotations

import math
from pathlib import Path

from asyncfl.audit.reconstruction.image_reconstruction import LevelImages, ReconstructedImages
from asyncfl.base.contact_sheet import SheetRow, draw_sheet, true_row
from asyncfl.base.errors import OutputError
from asyncfl.base.files.atomic import atomic_file

NAME = "reconstruction"
METHODS = {
    "first_layer": "division at the first layer",
    "cosine": "descent on the cosine distance of gradients",
    "l2": "descent on the L2 distance of gradients",
    "labels": "labels alone",
}
GRANTED = (
    "known to the attacker: the network, the model that the client was sent, the number of its images, the range of "
    "pixels, the training and the strength of the noise"
)


def level_name(epsilon: float | None) -> str:
    """Return the caption of a row of images: "ε = 8"; None: "as sent"; infinite: "no noise"."""
    if epsilon is None:
        return "as sent"
    return "no noise" if math.isinf(epsilon) else f"ε = {epsilon:,g}"


def write_images(pictures: ReconstructedImages, source: str, folder: Path) -> list[Path]:
    """Write the sheet of images (SVG, PNG, PDF; not for labels alone) and the table (CSV) into `folder`.

    source: origin of the images, for the caption. Returns the paths. Raises OutputError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from None
    written = []
    if pictures.method != "labels":
        rows = [true_row(pictures.true)]
        rows += [_row(level_name(level.epsilon), level) for level in pictures.levels]
        rows.append(_row("a guess: the mean test image", pictures.guess))
        title = f"Images reconstructed from one upload: client {pictures.client}, task {pictures.task}"
        written = draw_sheet(rows, caption_of(pictures, source), title, folder / NAME)
    table = folder / f"{NAME}.csv"
    with atomic_file(table) as part:
        pictures.table.to_csv(part, index=False, float_format="%.10g", lineterminator="\n")
    return [*written, table]


def caption_of(pictures: ReconstructedImages, source: str) -> str:
    """Return sentences on the upload, the attack and the attacker's knowledge. `source`: origin of the images."""
    steps = "1 local step" if pictures.steps == 1 else f"{pictures.steps} local steps, attacked as one"
    images = "1 image" if pictures.samples == 1 else f"{pictures.samples} images"
    return (
        f"{images}, {steps}, from version {pictures.base_version}; {METHODS[pictures.method]}; {GRANTED}. Each image "
        "stands below the true image that it fits best, with PSNR and SSIM. Noise is calibrated by the scheme, and "
        f"drawn from the same stream. Data: {source}."
    )


def _row(name: str, level: LevelImages) -> SheetRow:
    return SheetRow(name, level.made, tuple(map(float, level.psnr_db)), tuple(map(float, level.ssim)))
