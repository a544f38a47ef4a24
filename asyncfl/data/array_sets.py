"""Data sets by name, and those that are arrays: one's own, tables by name, and those with owners.

Images by name are drawn, or read sample by sample, instead.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from asyncfl.data.catalog import DatasetName
from asyncfl.data.federated import Source
from asyncfl.data.natural import NATURAL, NaturalName, natural_on_disk, natural_source
from asyncfl.data.own import TITLES, Dataset, ScikitLearn, ScikitLearnName
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.dataset import load_source
from asyncfl.errors import hint, shortened

AnyName = DatasetName | ScikitLearnName | NaturalName
"""Names that `data.dataset` may have."""
NAMES: tuple[str, ...] = tuple(name for part in (DatasetName, ScikitLearnName, NaturalName) for name in get_args(part))
"""The same as values, in order."""


def name_or_description(described: Any) -> Any:
    """Annotation of a field that holds a name of `NAMES`, or else what `described` annotates; one message for each."""

    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if not isinstance(value, str):
            return handler(value)
        if value not in NAMES:
            said = f"{hint(value, NAMES, 'names are')} (data of your own are a mapping with a kind)"
            raise PydanticCustomError("dataset_name", f"must be a data set, got {shortened(repr(value))}; {said}")
        return value

    def written(value: Any) -> Any:
        return value if isinstance(value, str) else value.model_dump(mode="json")

    return Annotated[
        described, WrapValidator(read, json_schema_input_type=AnyName | described), PlainSerializer(written)
    ]


def array_source(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> ArraySource | None:
    """The samples of a data set that is arrays, loaded when first asked for; None where it is images by name.

    Raises DataError where they cannot be loaded, or something is wrong with them.
    """
    if isinstance(dataset, str) and dataset in NATURAL:
        return natural_source(dataset, resolved(dataset, source) or "embedded")
    described = dataset_without_stand_in(dataset)
    return None if described is None else load_source(described)


def dataset_without_stand_in(dataset: str | Dataset) -> Dataset | None:
    """The description of arrays for which nothing stands in: one's own, or those that are always there."""
    if isinstance(dataset, Dataset):
        return dataset
    return ScikitLearn(name=dataset) if dataset in TITLES else None


def resolved(dataset: str | Dataset, source: Literal["auto", "real", "embedded"]) -> Source | None:
    """Whether a data set that is arrays is `real` or `embedded`; None where it is images by name."""
    if isinstance(dataset, str) and dataset in NATURAL:
        return ("real" if natural_on_disk(dataset) else "embedded") if source == "auto" else source
    return None if dataset_without_stand_in(dataset) is None else "real"
