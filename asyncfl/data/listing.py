"""List of all data sets by name with the source of each, and contact sheets of their images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault, OutputError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.data.catalog import ARRAY_SETS, CATALOG, ArraySet, find
from asyncfl.data.download import FETCHABLE
from asyncfl.data.image_file import ImageFile
from asyncfl.data.named_sets import array_source
from asyncfl.data.sample_source import SampleSource, to_common_shape
from asyncfl.data.stand_ins import TEST_SAMPLES, StandIns

PER_CLASS = 12
MOST_CLASSES = 10  # largest number of classes shown per data set, evenly spaced
_SEARCHED = 2000


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


def contact_sheet(names: Sequence[str], path: Path, embedded: bool = False) -> Path:
    """Write a PNG with one panel per data set, a row of training images per class (at most ten), and return its path.

    No names: all data sets. Real files are used if present, unless `embedded`; each panel states its source. Raises
    DataError for unknown names and damaged files, OutputError if the file cannot be written or is an existing file
    other than a PNG.
    """
    names = names or list(CATALOG)
    if unknown := [name for name in names if name not in CATALOG]:
        raise DataError([Fault("names", f"must be of {', '.join(CATALOG)}, got {', '.join(unknown)}")])
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.9 * rows), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, name in zip(axes, names, strict=False):
        panel, provenance = _panel(name, embedded)
        axis.imshow(panel, interpolation="nearest")
        axis.set_title(f"{name}\n{provenance}", fontsize=7, loc="left", wrap=True)
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    with atomic_file(path, lambda head: not head or head.startswith(b"\x89PNG")) as part:
        figure.savefig(part, format="png", metadata={"Software": None})
    return path


def _panel(name: str, embedded: bool) -> tuple[NDArray[np.uint8], str]:
    """Return images in rows of classes, in colour, and the line that states their source."""
    dataset = CATALOG[name]
    file = None if embedded else find(name)
    source: SampleSource = StandIns(dataset) if file is None else ImageFile(dataset, file)
    labels = source.labels("train", np.arange(min(_SEARCHED, source.size("train"))))
    shown = np.unique(np.linspace(0, dataset.classes - 1, MOST_CLASSES).astype(int))
    panel = np.zeros((len(shown), 28, PER_CLASS, 28, 3), np.uint8)
    for row, label in enumerate(shown):
        found = np.flatnonzero(labels == label)[:PER_CLASS]
        panel[row, :, : len(found)] = to_common_shape(source.images("train", found)).swapaxes(0, 1)
    of = "" if len(shown) == dataset.classes else f"\n{len(shown)} of {dataset.classes} classes"
    return panel.reshape(len(shown) * 28, PER_CLASS * 28, 3), source.provenance + of
