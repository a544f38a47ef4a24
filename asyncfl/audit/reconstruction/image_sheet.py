"""The contact sheet of an upload, and its numbers, as files."""

from __future__ import annotations

import math
from pathlib import Path

from asyncfl.analysis.contact_sheet import SheetRow, draw_sheet, true_row
from asyncfl.audit.reconstruction.image_reconstruction import LevelImages, ReconstructedImages
from asyncfl.errors import OutputError
from asyncfl.files.atomic import atomic_file

NAME = "reconstruction"
"""Of the files, before their endings."""
METHODS = {
    "first_layer": "division at the first layer",
    "cosine": "descent on the cosine distance of gradients",
    "l2": "descent on the L2 distance of gradients",
    "labels": "labels alone",
}
GRANTED = (
    "granted: the network, the model that the client was sent, the number of its images, the range of pixels, how it "
    "trains and how strong the noise is"
)


def level_name(epsilon: float | None) -> str:
    """The noise of a row in words."""
    if epsilon is None:
        return "as sent"
    return "no noise" if math.isinf(epsilon) else f"ε = {epsilon:,g}"


def write_images(pictures: ReconstructedImages, source: str, folder: Path) -> list[Path]:
    """Writes the contact sheet (SVG, PNG, PDF; not for labels alone) and the table (.csv) of an upload into `folder`.

    `source`: where the images come from. Returns the paths. Raises OutputError.
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
        title = f"What one upload gives away: client {pictures.client}, task {pictures.task}"
        written = draw_sheet(rows, caption_of(pictures, source), title, folder / NAME)
    table = folder / f"{NAME}.csv"
    with atomic_file(table) as part:
        pictures.table.to_csv(part, index=False, float_format="%.10g", lineterminator="\n")
    return [*written, table]


def caption_of(pictures: ReconstructedImages, source: str) -> str:
    """Whose upload it is, how it was attacked and with what knowledge, in a few sentences."""
    steps = "1 local step" if pictures.steps == 1 else f"{pictures.steps} local steps, taken for one"
    images = "1 image" if pictures.samples == 1 else f"{pictures.samples} images"
    return (
        f"{images}, {steps}, from version {pictures.base_version}; {METHODS[pictures.method]}; {GRANTED}. Each picture "
        "stands below the image that it fits best; under it PSNR and SSIM. Noise by the scheme's own calibration, from "
        f"the same stream. Data: {source}."
    )


def _row(name: str, level: LevelImages) -> SheetRow:
    return SheetRow(name, level.made, tuple(map(float, level.psnr_db)), tuple(map(float, level.ssim)))
