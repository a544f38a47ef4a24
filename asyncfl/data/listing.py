"""Which data sets there are and where each would come from."""

from __future__ import annotations

from typing import TypedDict

from asyncfl.data.catalog import CATALOG
from asyncfl.data.download import FETCHABLE
from asyncfl.data.embedded.embedded_source import TEST_SAMPLES
from asyncfl.data.folder import find
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.natural import NATURAL, NaturalSet, natural_source
from asyncfl.data.own import TITLES, ScikitLearn, ScikitLearnName
from asyncfl.data.own.dataset import load_source
from asyncfl.data.own.scikit_learn import LICENCES
from asyncfl.errors import DataError


class Available(TypedDict):
    """One row of the list of data sets."""

    name: str
    source: str
    """What `source: auto` takes: `real` or `embedded`."""
    train: int | None
    """Number of training images; None: stand-ins, no end of them."""
    test: int | None
    """Number of test images; of drawn images the usual one, None: of other stand-ins, which are not drawn to be
    counted."""
    image: str
    """Height x width, and x 3 where in colour; of a table its number of features."""
    provenance: str
    """What the images are; for a damaged file what is wrong with it."""
    licence: str
    """Licence of the original."""
    fetchable: bool
    """Whether `asyncfl data fetch` can download it."""
    path: str
    """File, empty where there is none."""


def available() -> list[Available]:
    """Rows for all data sets with a name; reads headers only.

    Raises DataError if ASYNCFL_DATA_DIR names no folder. Damaged files do not raise, their rows say so.
    """
    return [*map(_row, CATALOG), *map(_bundled_row, TITLES), *map(_natural_row, NATURAL.values())]


def _natural_row(about: NaturalSet) -> Available:
    path = find(about.filename)
    train: int | None = None
    test: int | None = None
    provenance = f"stand-in: {about.embedded}"
    if path is not None:
        try:
            source = natural_source(about.name, "real")
            train, test, provenance = source.size("train"), source.size("test"), source.provenance
        except DataError as error:
            train, test, provenance = 0, 0, str(error)
    return Available(
        name=about.name,
        source="embedded" if path is None else "real",
        train=train,
        test=test,
        image=about.shape,
        provenance=provenance,
        licence=about.licence,
        fetchable=True,
        path="" if path is None else str(path),
    )


def _bundled_row(name: ScikitLearnName) -> Available:
    source = load_source(ScikitLearn(name=name))
    return Available(
        name=name,
        source="real",
        train=source.size("train"),
        test=source.size("test"),
        image="x".join(map(str, source.shape[1:] if source.are_images else source.shape)),
        provenance=f"{source.title}, with scikit-learn",
        licence=LICENCES[name],
        fetchable=False,
        path="",
    )


def _row(name: str) -> Available:
    dataset = CATALOG[name]
    path = find(dataset.filename)
    train: int | None = None
    test = TEST_SAMPLES
    provenance = f"stand-in: {dataset.embedded}"
    if path is not None:
        try:
            source = ImageFileSource(dataset, path)
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
        licence=dataset.licence,
        fetchable=name in FETCHABLE,
        path="" if path is None else str(path),
    )
