"""Options of a command as a description: faults are told in the command's own words."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from asyncfl.description import faults_of
from asyncfl.errors import Fault, ScenarioError

M = TypeVar("M", bound=BaseModel)


def ask(model: type[M], description: dict[str, Any], command: str) -> M:
    """`model` with these values.

    Raises ScenarioError that names the options (`--clip-norm`) at fault, and words of a list by themselves.
    """
    try:
        return model.model_validate(description)
    except ValidationError as error:
        faults = [_as_typed(fault, description) for fault in faults_of(error, model, description)]
        raise ScenarioError(faults, command) from None


def _as_typed(fault: Fault, description: dict[str, Any]) -> Fault:
    """A fault of a field (`noise.clip_norm`, `releases.1`) as one of what stood in the command."""
    above, _, name = fault.field.rpartition(".")
    if not name.isdigit():
        return Fault("--" + name.replace("_", "-"), fault.message)
    word = str(description[above][int(name)])
    # The fault's name says already what came.
    return Fault(word, fault.message.removesuffix(f", got {word!r}"))
