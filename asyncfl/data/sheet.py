"""Contact sheets: example images of data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import DataError, Fault, OutputError
from asyncfl.base.files.atomic import atomic_file
from asyncfl.data.catalog import CATALOG
from asyncfl.data.embedded.embedded_source import EmbeddedSource
from asyncfl.data.folder import find
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.pixels import to_common_shape

PER_CLASS = 12
MOST_CLASSES = 10
"""Largest number of classes shown per data set, evenly spaced."""
_SEARCHED = 2000


def contact_sheet(names: Sequence[str], path: Path, embedded: bool = False) -> Path:
    """Write a PNG with one panel per data set, a row of training images per class (at most ten), and return its path.

    No names: all data sets. Real files are used if present, unless `embedded`; each panel states its source. Raises
    DataError for unknown names and damaged files, OutputError if the file cannot be written or is an existing file
    other than a PNG.
    """
    names = names or list(CATALOG)
    unknown = [name for name in names if name not in CATALOG]
    if unknown:
        allowed = f"must be of {', '.join(CATALOG)}"
        raise DataError([Fault("names", f"{allowed}, got {', '.join(unknown)}")])
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
    with atomic_file(path, _is_png) as part:
        figure.savefig(part, format="png", metadata={"Software": None})
    return path


def _is_png(head: bytes) -> bool:
    return not head or head.startswith(b"\x89PNG")


def _panel(name: str, embedded: bool) -> tuple[NDArray[np.uint8], str]:
    """Return images in rows of classes, in colour, and the line that states their source."""
    dataset = CATALOG[name]
    file = None if embedded else find(dataset.filename)
    source = EmbeddedSource(dataset) if file is None else ImageFileSource(dataset, file)
    searched = _SEARCHED if isinstance(source, EmbeddedSource) else min(_SEARCHED, source.size("train"))
    labels = source.labels("train", np.arange(searched))
    rows = []
    shown = np.unique(np.linspace(0, dataset.classes - 1, MOST_CLASSES).astype(int))
    for label in shown.tolist():
        found = np.flatnonzero(labels == label)[:PER_CLASS]
        images = to_common_shape(source.images("train", found))
        row = np.zeros((PER_CLASS, 28, 28, 3), np.uint8)
        row[: len(found)] = images
        rows.append(np.concatenate(list(row), axis=1))
    of = "" if len(shown) == dataset.classes else f"\n{len(shown)} of {dataset.classes} classes"
    return np.concatenate(rows), source.provenance + of
