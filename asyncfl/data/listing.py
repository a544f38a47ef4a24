"""List of all data sets by name, with the source of each."""

from __future__ import annotations

from typing import TypedDict

from asyncfl.base.errors import DataError
from asyncfl.data.catalog import CATALOG
from asyncfl.data.download import FETCHABLE
from asyncfl.data.embedded.embedded_source import TEST_SAMPLES
from asyncfl.data.folder import find
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.natural import NATURAL, NaturalSet, natural_source
from asyncfl.data.own import TITLES, ScikitLearn, ScikitLearnName
from asyncfl.data.own.dataset import load_source
from asyncfl.data.own.scikit_learn import LICENCES
from asyncfl.data.recipes import REMADE


class Available(TypedDict):
    """One row of the list of data sets."""

    name: str
    source: str
    """Source chosen by `source: auto`: `real` or `embedded`."""
    train: int | None
    """Number of training samples; None for stand-ins, which are unlimited."""
    test: int | None
    """Number of test samples; for drawn images the default number, None for other stand-ins."""
    image: str
    """Height x width, and x 3 for colour; for a table its number of features."""
    provenance: str
    """Origin of the samples; for a damaged file its fault."""
    licence: str
    """Licence of the original."""
    fetchable: bool
    """Whether `asyncfl data fetch` can download it."""
    path: str
    """File, empty if there is none."""


def available() -> list[Available]:
    """List all data sets with a name; only headers of files are read.

    Raises DataError if ASYNCFL_DATA_DIR names no folder. A damaged file is described in its row.
    """
    return [*map(_image_row, CATALOG), *map(_scikit_learn_row, TITLES), *map(_natural_row, NATURAL.values())]


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


def _scikit_learn_row(name: ScikitLearnName) -> Available:
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


def _image_row(name: str) -> Available:
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
        fetchable=name in (*FETCHABLE, *REMADE),
        path="" if path is None else str(path),
    )
