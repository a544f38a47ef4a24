"""Data sets that are arrays: one's own, tables by name, and those with owners; images by name are drawn or read bit by
bit instead."""

from __future__ import annotations

from typing import Literal

from asyncfl.data.federated import Source
from asyncfl.data.natural import NATURAL, natural_on_disk, natural_source
from asyncfl.data.own import TITLES, Bundled, Dataset
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.base import source_of


def array_source(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> ArraySource | None:
    """The samples of a data set that is arrays, loaded when first asked for; None where it is images by name.

    Raises DataError where they cannot be loaded, or something is wrong with them.
    """
    if isinstance(dataset, str) and dataset in NATURAL:
        return natural_source(dataset, resolved(dataset, source) or "embedded")
    described = without_stand_in(dataset)
    return None if described is None else source_of(described)


def without_stand_in(dataset: str | Dataset) -> Dataset | None:
    """The description of arrays for which nothing stands in: one's own, or those that are always there."""
    if isinstance(dataset, Dataset):
        return dataset
    return Bundled(name=dataset) if dataset in TITLES else None


def resolved(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> Source | None:
    """Whether a data set that is arrays is `real` or `embedded`; None where it is images by name."""
    if isinstance(dataset, str) and dataset in NATURAL:
        return ("real" if natural_on_disk(dataset) else "embedded") if source == "auto" else source
    return None if without_stand_in(dataset) is None else "real"
