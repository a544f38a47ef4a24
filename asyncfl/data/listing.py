"""Which data sets there are and where each would come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asyncfl.data.catalog import CATALOG
from asyncfl.data.download import FETCHABLE
from asyncfl.data.embedded.source import TEST_SAMPLES
from asyncfl.data.folder import find
from asyncfl.data.npz import NpzSource
from asyncfl.errors import DataError


@dataclass(frozen=True)
class Available:
    """One row of the list of data sets.

    `train` and `test` are numbers of images: of the file, or where there is none None (no end of them) and the
    stand-in's usual test set. `fault` says what is wrong with a file that is there and damaged.
    """

    name: str
    source: str
    """What `source: auto` takes: `real` or `embedded`."""
    path: Path | None
    train: int | None
    test: int
    image: str
    """Height x width, and x 3 where in colour."""
    provenance: str
    fetchable: bool
    """Whether `asyncfl data fetch` can download it."""
    fault: str = ""


def available() -> list[Available]:
    """Rows for all known data sets; reads headers only.

    Raises DataError if ASYNCFL_DATA_DIR names no folder. Damaged files do not raise, their rows say so.
    """
    return [_row(name) for name in CATALOG]


def _row(name: str) -> Available:
    dataset = CATALOG[name]
    path = find(dataset.filename)
    image, fetchable = "x".join(map(str, dataset.image_shape)), name in FETCHABLE
    if path is None:
        drawn = f"stand-in: {dataset.embedded}"
        return Available(name, "embedded", None, None, TEST_SAMPLES, image, drawn, fetchable)
    try:
        source = NpzSource(dataset, path)
    except DataError as error:
        return Available(name, "real", path, 0, 0, image, "damaged file", fetchable, str(error))
    return Available(name, "real", path, source.size("train"), source.size("test"), image, source.provenance, fetchable)
