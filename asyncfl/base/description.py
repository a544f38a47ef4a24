"""Dotted fields of nested mappings, and pydantic's errors reworded so that a user can act on them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Annotated, Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from asyncfl.base.component import Choice
from asyncfl.base.errors import Fault, ScenarioError, any_of, nearest, shortened
from asyncfl.base.former_names import former_names

log = logging.getLogger(__name__)

YAML_WORDS = {"None": "null", "True": "true", "False": "false"}
"""Values in Python -> as a file has them."""
Models = list[type[BaseModel]]


def override(description: dict[str, Any], changes: Mapping[str, Any], model: type[BaseModel]) -> list[str]:
    """Set dotted fields in nested mappings that describe a `model`, in place.

    Setting a `kind` to another value removes the fields of that component that the new kind does not have, whatever the
    order of `changes`. Returns the dotted names of these.
    """
    removed = []
    for name in sorted(changes, key=lambda name: (name.count("."), not name.endswith(".kind"))):
        *path, last = name.split(".")
        part, models = description, [model]
        for step in path:
            fields = [one.model_fields[step] for one in _of_kind(models, part) if step in one.model_fields]
            inner = part.get(step)
            if not isinstance(inner, dict):
                inner = part[step] = _given_by_default(fields)
            part, models = inner, [one for field in fields for one in _models_in(field)]
        if last == "kind" and part.get("kind") != changes[name] and any(map(_kind_of, models)):
            known = {field for one in models if _kind_of(one) == changes[name] for field in one.model_fields}
            for field in [field for field in part if field not in known]:
                del part[field]
                removed.append(".".join([*path, field]))
        # A copy, whole: a further change may go into its parts, which are the caller's.
        part[last] = deepcopy(changes[name])
    return [name for name in removed if name not in changes]


def warn_of_left_out(changes: Mapping[str, Any], removed: Sequence[str]) -> None:
    """Say which fields a change of a `kind` has removed. `changes`, `removed`: see `override`."""
    for name in (name for name in changes if name.endswith(".kind")):
        if left_out := [one for one in removed if one.startswith(name.removesuffix("kind"))]:
            log.warning("%s=%s has no %s: left out", name, changes[name], ", ".join(left_out))


def _of_kind(models: Models, part: Mapping[str, Any]) -> Models:
    """Return the models that may describe a part: those of its kind, where it has one that is built in."""
    return [one for one in models if "kind" in part and _kind_of(one) == part["kind"]] or models


def _given_by_default(fields: Sequence[FieldInfo]) -> dict[str, Any]:
    """Return what is given of a part that a description leaves out: the kind of its default, and what that sets."""
    for field in fields:
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            return explicit_fields(default)
    return {}


def explicit_fields(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model that were given and not left at their defaults, and each `kind`, as plain values."""

    def given(value: Any, plain: Any) -> Any:
        if not (isinstance(value, BaseModel) and isinstance(plain, dict)):
            return plain
        chosen = {*value.model_fields_set, "kind"}
        return {name: given(getattr(value, name), inner) for name, inner in plain.items() if name in chosen}

    found: dict[str, Any] = given(model, model.model_dump(mode="json"))
    return found


def fields_of(value: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested mappings, and return dotted name -> value. `name`: dotted name of `value` itself."""
    if not isinstance(value, dict) or not value:
        return {name: value}
    below = (fields_of(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items())
    return {key: inner for part in below for key, inner in part.items()}


def differing_fields(*descriptions: Any) -> dict[str, list[Any]]:
    """Return the dotted fields in which nested mappings differ, with the value in each; None for an absent one."""
    first, *others = flat = [fields_of(one) for one in descriptions]
    names = dict.fromkeys(name for one in flat for name in one)
    apart = [name for name in names if any(one.get(name, _NONE) != first.get(name, _NONE) for one in others)]
    return {name: [one.get(name) for one in flat] for name in apart}


_NONE = object()


def sound_parts(model: type[BaseModel], description: Mapping[str, Any]) -> dict[str, Any]:
    """Validate each top-level field of `description` alone; return the valid ones, and defaults of absent ones."""
    parts: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in description:
            annotation: Any = Annotated[(field.annotation, *field.metadata, None)]
            with suppress(ValidationError, ScenarioError):
                parts[name] = TypeAdapter(annotation).validate_python(description[name])
        elif not field.is_required():
            parts[name] = field.get_default(call_default_factory=True)
    return parts


# --- faults ----------------------------------------------------------------------------------------------------------


def faults_of(error: ValidationError, model: type[BaseModel], description: Any) -> list[Fault]:
    """Return pydantic's errors as faults, one per field. `description` was validated as `model`."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for details in error.errors():
        # A list may be too short only because its invalid items were not counted.
        if details["type"] != "too_short" or len(details["input"]) < details["ctx"]["min_length"]:
            name, holder, models = _locate(model, description, details["loc"])
            found.setdefault(name, {})[_in_words(details, name, holder, models)] = None
    return [Fault(name, _together(list(findings))) for name, findings in found.items()]


def _locate(
    model: type[BaseModel], value: Any, steps: tuple[int | str, ...]
) -> tuple[str, type[BaseModel] | None, Models]:
    """Return the field at `steps`, pydantic's location: names, indices, and members of unions, which are left out.

    Returns its dotted name, the model that it stands in (None: unknown), and the models that may validate it.
    """
    names: list[str] = []
    beside: type[BaseModel] | None = None
    models: Models = [model]
    for step in steps:
        if isinstance(value, list | tuple) and isinstance(step, int):
            names.append(str(step))
            beside, value = None, value[step] if step < len(value) else None
        elif isinstance(value, Mapping):
            named = [one for one in models if _kind_of(one) == value.get("kind")] if "kind" in value else []
            holder = next(iter(named), models[0] if len(models) == 1 else None)
            fields = {} if holder is None else holder.model_fields
            # A class of the user's own is validated alone, without a union: each step is a field of it.
            if step in value or step in fields or ":" in str(value.get("kind")):
                names.append(str(step))
                beside, value = holder, value.get(step)
                if not fields or step in fields:  # else a mapping from names to models
                    models = _models_in(fields[str(step)]) if fields else []
    return ".".join(names), beside, models


MOST_SECTIONS = 4
"""Most places that are told where a name is a field in several sections."""


def _in_sections(models: Models, name: str, deep: int = 3) -> list[str]:
    """Return the paths of the fields of this name below the fields of `models`, in a kind or another, shallow first."""
    below: dict[str, Models] = {}
    for model in models:
        for section, field in model.model_fields.items():
            below.setdefault(section, []).extend(_models_in(field))
    found = [f"{section}.{name}" for section, of in below.items() if any(name in model.model_fields for model in of)]
    if deep > 1:
        found += [f"{section}.{path}" for section, of in below.items() for path in _in_sections(of, name, deep - 1)]
    return sorted(dict.fromkeys(found), key=lambda path: path.count("."))


def _kind_of(model: type[BaseModel]) -> Any:
    kind = model.model_fields.get("kind")
    return None if kind is None else kind.default


def _kinds_beside(models: Models, holder: type[BaseModel] | None, name: str) -> tuple[str, list[str]]:
    """Return ` of kind KIND` for the `holder`, one of several `models`, and the kinds that have a field `name`."""
    if len(models) < 2 or holder is None or not isinstance(_kind_of(holder), str):
        return "", []
    others = [_kind_of(one) for one in models if name in one.model_fields]
    return f" of kind {_kind_of(holder)}", [kind for kind in others if isinstance(kind, str)]


def _models_in(annotation: Any) -> Models:
    """Return the models inside an annotation, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, Choice):
        return list(annotation.kinds.values())
    parts = [annotation.annotation, *annotation.metadata] if isinstance(annotation, FieldInfo) else get_args(annotation)
    return [model for part in parts for model in _models_in(part)]


def _together(findings: list[tuple[str, str]]) -> str:
    """Join the errors of one field, each as required and as given, to one sentence."""
    if len({got for _, got in findings}) == 1:
        return ", or ".join(wanted for wanted, _ in findings) + findings[0][1]
    return ", or ".join(wanted + got for wanted, got in findings)


def _in_words(details: ErrorDetails, name: str, holder: type[BaseModel] | None, models: Models) -> tuple[str, str]:
    """Word an error of pydantic: what is required, and the end of the sentence with the value that came."""
    kind, context, came = details["type"], details.get("ctx", {}), details["input"]
    got = (
        ", got a mapping" if isinstance(came, Mapping) else f", got {YAML_WORDS.get(repr(came), shortened(repr(came)))}"
    )
    match kind:
        case "component":
            return context["wanted"], context["got"]
        case "extra_forbidden":
            last = name.rpartition(".")[2]
            if now := [field for model in models for field, former in former_names(model).items() if former == last]:
                return f"is no field; it is called {now[0]} now", ""
            siblings = [] if holder is None else sorted(holder.model_fields)
            near = nearest(last, siblings)
            deeper = [] if near or holder is None or last == "kind" else _in_sections([holder], last)
            if near:
                meant = f"; did you mean {near}?"
            elif deeper:
                places = (f"{name.removesuffix(last)}{path}" for path in deeper[:MOST_SECTIONS])
                meant = f"; did you mean {any_of(places)}?"
            else:
                meant = f"; fields here are {', '.join(siblings)}"
            of_kind, others = _kinds_beside(models, holder, last)
            meant = f"; kinds that have it: {', '.join(others)}" if others else meant
            return f"is no field{of_kind}" + (meant if siblings else ""), ""
        case "missing":
            return "is required and missing", ""
        case "union_tag_invalid":
            tags = str(context["expected_tags"]).replace("'", "")
            return f"{str(context['discriminator']).strip(chr(39))} must be one of {tags}", f", got {context['tag']!r}"
        case "union_tag_not_found":
            return "must be a mapping with a kind", ", got one without" if isinstance(came, Mapping) else got
        case "model_type" | "model_attributes_type" | "dict_type" | "mapping_type":
            fields = ", ".join(models[0].model_fields) if len(models) == 1 else ""
            return "must be a mapping" + (f" with the fields {fields}" if fields else ""), got
        case "list_type" | "tuple_type":
            return "must be a list", got
        case "too_short":
            return f"must list at least {context['min_length']}", f", got {context['actual_length']}"
        case "int_from_float":
            wanted = "must be a whole number"
        case "int_parsing_size":
            wanted = "must be a smaller whole number"
        case "string_type":
            wanted = "must be text"
            got += "; quote it" if isinstance(came, bool | int | float) else ""
            got += ", YAML reads no, off, yes and on as false and true" if isinstance(came, bool) else ""
        case "literal_error":
            wanted = f"must be {context['expected']}"
        case _:
            message = str(details["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
            wanted = message.replace("Input should be", "must be").split(", unable to")[0]
    if re.search(r"\bgot\b", wanted):
        return wanted, ""
    if isinstance(came, Mapping):
        # A rule about several fields names them in its message.
        return wanted, got if kind.endswith(("_type", "_parsing", "literal_error")) else ""
    if kinds := [one for one in map(_kind_of, models) if isinstance(one, str)]:
        near = nearest(came, kinds) if isinstance(came, str) else None
        got += f"; did you mean {{kind: {near}}}?" if near else ""
        wanted += f" or a mapping with a kind ({', '.join(kinds)})"
    return wanted, got
