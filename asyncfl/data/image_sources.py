"""The source of images by name: the data set's own file, a substitute's file, or drawn stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asyncfl.data.catalog import CATALOG, CatalogEntry
from asyncfl.data.download import fetch
from asyncfl.data.embedded.embedded_source import EmbeddedSource
from asyncfl.data.federated import Source
from asyncfl.data.folder import find
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.sample_source import SampleSource


def on_disk(names: Sequence[str], federated: bool) -> bool:
    """Whether each name has a file; contents are not read. Arguments as for `sources_of`."""
    return all(find(d.filename) or _substitute(d, names, federated) for d in (CATALOG[name] for name in names))


def sources_of(names: Sequence[str], source: Source, federated: bool) -> list[SampleSource]:
    """Open the source of each data set, in order.

    federated: the names are domains of one federation. Then a data set whose file is incomplete is replaced by the
    catalog's substitute (street digits for SVHN), unless the substitute is a domain itself.

    Raises DataError for files that are damaged, or that are missing and cannot be downloaded.
    """
    datasets = [CATALOG[name] for name in names]
    if source == "embedded":
        return [EmbeddedSource(dataset) for dataset in datasets]
    others = [_substitute(dataset, names, federated) for dataset in datasets]
    own = [find(dataset.filename) for dataset in datasets]
    missing = [d.name for d, *files in zip(datasets, own, others, strict=True) if not any(files)]
    fetched = dict(zip(missing, fetch(missing), strict=True))
    own = [fetched.get(d.name, file) for d, file in zip(datasets, own, strict=True)]
    return [_from_files(d, *files) for d, *files in zip(datasets, own, others, strict=True)]


def _from_files(dataset: CatalogEntry, own: Path | None, other: Path | None) -> ImageFileSource:
    """Open the data set's own file if it is complete or the only one; otherwise the substitute's."""
    source = None if own is None else ImageFileSource(dataset, own)
    if other is None or (source is not None and source.is_original):
        assert source is not None
        return source
    return ImageFileSource(CATALOG[dataset.substitute], other, stands_for=dataset)


def _substitute(dataset: CatalogEntry, names: Sequence[str], federated: bool) -> Path | None:
    """Return the file of the data set's substitute among the domains `names`, if there is one."""
    if not federated or not dataset.substitute or dataset.substitute in names:
        return None
    return find(CATALOG[dataset.substitute].filename)
