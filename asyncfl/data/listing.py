"""List of all data sets by name with the source of each."""

from __future__ import annotations

from typing import TypedDict

from asyncfl.base.errors import DataError
from asyncfl.data.catalog import ARRAY_SETS, CATALOG, ArraySet, find
from asyncfl.data.download import FETCHABLE
from asyncfl.data.image_file import ImageFile
from asyncfl.data.named_sets import array_source
from asyncfl.data.stand_ins import TEST_SAMPLES


class Available(TypedDict):
    """One row of the list of data sets."""

    name: str
    source: str
    """Source chosen by `source: auto`: `real` or `embedded`; `missing` if there is neither file nor stand-in."""
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
    return [_row(name) for name in (*CATALOG, *ARRAY_SETS)]


def _row(name: str) -> Available:
    about = (CATALOG | ARRAY_SETS)[name]
    image = about.shape if isinstance(about, ArraySet) else "x".join(map(str, about.image_shape))
    bundled = isinstance(about, ArraySet) and not about.official
    path, train, source = None if bundled else find(name), None, "embedded"
    test = TEST_SAMPLES if name in CATALOG else None
    provenance = f"stand-in: {about.embedded}"
    if path is not None or bundled:
        source = "real"
        try:
            opened = ImageFile(CATALOG[name], path) if name in CATALOG and path else array_source(name, "real")
            assert opened is not None
            train, test, provenance = opened.size("train"), opened.size("test"), opened.provenance
        except DataError as error:
            train, test, provenance = 0, 0, str(error)
    elif not about.embedded:
        source, provenance = "missing", f"no file and no stand-in; asyncfl data fetch {name}"
    return Available(
        name=name,
        source=source,
        train=train,
        test=test,
        image=image,
        provenance=provenance,
        licence=about.licence,
        fetchable=name in FETCHABLE,
        path=str(path or ""),
    )
