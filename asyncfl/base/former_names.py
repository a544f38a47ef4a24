"""Former names of fields: in files that earlier versions wrote, and in the names of runs.

A field that is renamed declares its former name:

    gradient_step: Annotated[Literal["per_batch", "printed"], FormerName("local_steps")] = "per_batch"

Runs on disk and recordings are read under both names (`with_current_names`), and runs keep their names, which are
computed from the former one. A user's new file must use the current name, which the error message says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class FormerName:
    """Annotation of a renamed field: the name under which runs on disk may hold it."""

    name: str


@cache
def former_names(model: type[BaseModel]) -> dict[str, str]:
    """Return field -> former name, for the renamed fields of a model."""
    return {
        name: mark.name
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, FormerName)
    }


def with_current_names(description: Any, model: type[BaseModel]) -> Any:
    """Return a `description` of a `model`, in which parts that are models themselves may have former field names, with
    the current ones.

    Parts that are chosen by `kind`, lists and mappings of models are left as they are.
    """
    if not isinstance(description, Mapping):
        return description
    current = {former: name for name, former in former_names(model).items()}
    found: dict[str, Any] = {}
    for name, value in description.items():
        field = model.model_fields.get(str(name))
        if field is not None and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            value = with_current_names(value, field.annotation)
        found[current.get(str(name), str(name))] = value
    return found
