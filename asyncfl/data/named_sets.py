"""Data sets by name: where their samples come from.

Images by name are read from the data set's file or a substitute's, or drawn. Data sets of arrays are a user's own,
tables of scikit-learn, and those whose samples have owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from asyncfl.base.errors import DataError, Fault, MissingDataError, hint, shortened
from asyncfl.data.catalog import (
    ARRAY_SETS,
    CATALOG,
    DATA_DIR,
    ArraySet,
    DatasetName,
    NaturalName,
    ScikitLearnName,
    find,
)
from asyncfl.data.download import fetch
from asyncfl.data.federated import Source
from asyncfl.data.image_file import ImageFile
from asyncfl.data.own import Dataset, NpzFile, ScikitLearn
from asyncfl.data.own.dataset import ArraySource, load_source
from asyncfl.data.sample_source import SampleSource
from asyncfl.data.stand_ins import StandIns, draw_femnist

AnyName = DatasetName | ScikitLearnName | NaturalName  # allowed names in `data.dataset`
NAMES: tuple[str, ...] = tuple(name for part in get_args(AnyName) for name in get_args(part))
AnySource = Literal["auto", "real", "embedded"]


def name_or_description(described: Any) -> Any:
    """Return the type of a field that holds one of `NAMES` or a value of the type `described`, with one error message
    for both."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, str):
            return handler(value)
        if value not in NAMES:
            advice = f"{hint(value, NAMES, 'names are')} (data of your own are a mapping with a kind)"
            raise PydanticCustomError("dataset_name", f"must be a data set, got {shortened(repr(value))}; {advice}")
        return value

    def written(value: Any) -> Any:
        return value if isinstance(value, str) else value.model_dump(mode="json")

    return Annotated[
        described, WrapValidator(read, json_schema_input_type=AnyName | described), PlainSerializer(written)
    ]


def array_source(dataset: str | Dataset, source: AnySource) -> ArraySource | None:
    """Return the samples of a data set that consists of arrays, loaded on first use; None for images by name.

    Raises DataError if they are missing, cannot be loaded or are invalid.
    """
    if isinstance(dataset, Dataset):
        return load_source(dataset)
    if dataset not in ARRAY_SETS:
        return None
    about = ARRAY_SETS[dataset]
    if not about.official:
        return load_source(ScikitLearn.model_validate({"name": dataset}))
    path = find(dataset)
    if about.embedded and source != "real" and (path is None or source == "embedded"):
        return _natural_source(about, None)
    if path is None and source != "real":
        message = f"{about.title} is not on disk and has no stand-in: download it with asyncfl data fetch {about.name}"
        advice = f"or put {about.name}.npz into the folder that {DATA_DIR} names"
        missing: dict[str, str] = {about.name: about.title}
        raise MissingDataError([Fault("data.dataset", f"{message}, {advice}")], missing=missing)
    path = path or fetch([about.name])[0]
    found = load_source(NpzFile(path=str(path), classes=len(about.classes)))
    if unknown := [name for name in about.columns if name not in found.columns]:
        raise DataError((Fault(f"{name}_train", "is missing; it says whose each sample is") for name in unknown), path)
    return _natural_source(about, found)


@lru_cache(maxsize=2)
def _natural_source(about: ArraySet, found: ArraySource | None) -> ArraySource:
    """Return the samples of a data set whose samples have owners: `found`, or drawn ones."""
    samples = draw_femnist() if found is None else replace(found.samples, classes=about.classes)
    source = ArraySource(about.name, about.title, samples)
    count = f"{source.size('train')} + {source.size('test')} samples"
    source.is_original = found is not None and source.size("train") + source.size("test") == about.official
    kind = "complete" if source.is_original else "not the complete original"
    drawn = f"stand-in for {about.title}: {about.embedded} ({count})"
    source.provenance = drawn if found is None else f"{about.title}, {kind} ({count})"
    return source


def title_without_stand_in(dataset: str | Dataset) -> str | None:
    """Return the title of a data set that has no stand-in; None if it has one."""
    if isinstance(dataset, Dataset):
        return dataset.title
    about = ARRAY_SETS.get(dataset)
    return None if about is None or about.embedded else about.title


def image_sources(names: Sequence[str], source: Source, federated: bool) -> list[SampleSource]:
    """Open the source of each set of images, in order.

    federated: the names are domains of one federation. Then a data set whose file is incomplete is replaced by the
    catalog's substitute (street digits for SVHN), unless the substitute is a domain itself.

    Raises DataError for files that are damaged, or that are missing and cannot be downloaded.
    """
    if source == "embedded":
        return [StandIns(CATALOG[name]) for name in names]
    substitutes = {name: substitute(name, names, federated) for name in names}
    files = {name: find(name) for name in names}
    missing = [name for name in names if not files[name] and not substitutes[name]]
    files |= zip(missing, fetch(missing), strict=True)
    opened: list[SampleSource] = []
    for name in names:
        path, other = files[name], substitutes[name]
        own = None if path is None else ImageFile(CATALOG[name], path)
        if other is not None and not (own and own.is_original):
            own = ImageFile(CATALOG[CATALOG[name].substitute], other, stands_for=CATALOG[name])
        assert own is not None
        opened.append(own)
    return opened


def substitute(name: str, names: Sequence[str], federated: bool) -> Path | None:
    """Return the file that may replace that of the domain `name`; None if there is none."""
    other = CATALOG[name].substitute if federated else ""
    return find(other) if other and other not in names else None
