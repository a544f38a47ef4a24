"""Which data sets there are and where each would come from."""

from __future__ import annotations

from typing import TypedDict

from asyncfl.data.catalog import CATALOG
from asyncfl.data.download import FETCHABLE
from asyncfl.data.embedded.source import TEST_SAMPLES
from asyncfl.data.folder import find
from asyncfl.data.npz import NpzSource
from asyncfl.errors import DataError


class Available(TypedDict):
    """One row of the list of data sets."""

    name: str
    source: str
    """What `source: auto` takes: `real` or `embedded`."""
    train: int | None
    """Number of training images; None: stand-ins, no end of them."""
    test: int
    """Number of test images; of stand-ins the usual one."""
    image: str
    """Height x width, and x 3 where in colour."""
    provenance: str
    """What the images are; for a damaged file what is wrong with it."""
    fetchable: bool
    """Whether `asyncfl data fetch` can download it."""
    path: str
    """File, empty where there is none."""


def available() -> list[Available]:
    """Rows for all known data sets; reads headers only.

    Raises DataError if ASYNCFL_DATA_DIR names no folder. Damaged files do not raise, their rows say so.
    """
    return [_row(name) for name in CATALOG]


def _row(name: str) -> Available:
    dataset = CATALOG[name]
    path = find(dataset.filename)
    train: int | None = None
    test = TEST_SAMPLES
    provenance = f"stand-in: {dataset.embedded}"
    if path is not None:
        try:
            source = NpzSource(dataset, path)
            train, test, provenance = source.size("train"), source.size("test"), source.provenance
        except DataError as error:
            train, test, provenance = 0, 0, str(error)
    return Available(
        name=name,
        source="embedded" if path is None else "real",
        train=train,
        test=test,
        image="x".join(map(str, dataset.image_shape)),
        provenance=provenance,
        fetchable=name in FETCHABLE,
        path="" if path is None else str(path),
    )
