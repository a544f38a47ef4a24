"""Names of data sets, and the sources of those that consist of arrays: user's own, tables by name, and those with
owners.

Images by name have other sources, see `image_sources`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from asyncfl.base.errors import hint, shortened
from asyncfl.data.catalog import DatasetName
from asyncfl.data.federated import Source
from asyncfl.data.natural import NATURAL, NaturalName, natural_on_disk, natural_source
from asyncfl.data.own import TITLES, Dataset, ScikitLearn, ScikitLearnName
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.dataset import load_source

AnyName = DatasetName | ScikitLearnName | NaturalName
"""Allowed names in `data.dataset`."""
NAMES: tuple[str, ...] = tuple(name for part in (DatasetName, ScikitLearnName, NaturalName) for name in get_args(part))
"""The same names as values, in order."""


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


def array_source(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> ArraySource | None:
    """Return the samples of a data set that consists of arrays, loaded on first use; None for images by name.

    Raises DataError if they cannot be loaded or are invalid.
    """
    if isinstance(dataset, str) and dataset in NATURAL:
        return natural_source(dataset, resolve_array_source(dataset, source) or "embedded")
    described = dataset_without_stand_in(dataset)
    return None if described is None else load_source(described)


def dataset_without_stand_in(dataset: str | Dataset) -> Dataset | None:
    """Return the description of a data set that has no stand-in: user's own, or one that ships with scikit-learn; else
    None."""
    if isinstance(dataset, Dataset):
        return dataset
    return ScikitLearn(name=dataset) if dataset in TITLES else None


def resolve_array_source(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> Source | None:
    """Return whether a data set that consists of arrays is `real` or `embedded`; None for images by name."""
    if isinstance(dataset, str) and dataset in NATURAL:
        return ("real" if natural_on_disk(dataset) else "embedded") if source == "auto" else source
    return None if dataset_without_stand_in(dataset) is None else "real"
