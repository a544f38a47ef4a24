"""Options of a command as a description: faults are told in the command's own words."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from asyncfl.description import faults_of
from asyncfl.errors import Fault, ScenarioError

M = TypeVar("M", bound=BaseModel)


def ask(model: type[M], description: dict[str, Any], command: str) -> M:
    """`model` with these values. Raises ScenarioError that names the options (`--clip-norm`) at fault."""
    try:
        return model.model_validate(description)
    except ValidationError as error:
        faults = faults_of(error, model, description)
        raise ScenarioError(
            [Fault("--" + fault.field.rpartition(".")[2].replace("_", "-"), fault.message) for fault in faults], command
        ) from None
