"""Dotted fields of nested mappings, and pydantic's errors reworded so that a user can act on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from asyncfl.base.errors import Fault, ScenarioError, nearest, shortened


def override(description: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Set dotted fields in nested mappings, in place.

    Setting a `kind` to another value clears the other fields of that component, whatever the order of `changes`.
    """
    for name in sorted(changes, key=lambda name: (name.count("."), not name.endswith(".kind"))):
        *path, last = name.split(".")
        part = description
        for step in path:
            inner = part.get(step)
            if not isinstance(inner, dict):
                inner = part[step] = {}
            part = inner
        if last == "kind" and part.get("kind") != changes[name]:
            part.clear()
        value = changes[name]
        part[last] = dict(value) if isinstance(value, Mapping) else value


def fields_of(value: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested mappings, and return dotted name -> value. `name`: dotted name of `value` itself."""
    if not isinstance(value, dict) or not value:
        return {name: value}
    below = (fields_of(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items())
    return {key: inner for part in below for key, inner in part.items()}


def differing_fields(one: Any, other: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """Return the dotted fields in which two nested mappings differ, with both values; None for an absent one.

    name: dotted name of the mappings themselves.
    """
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [(name, one, other)]
    found = []
    for key in [*one, *(key for key in other if key not in one)]:
        found += differing_fields(one.get(key), other.get(key), f"{name}.{key}" if name else key)
    return found


def sound_parts(model: type[BaseModel], description: Mapping[str, Any]) -> dict[str, Any]:
    """Validate each top-level field of `description` alone; return the valid ones, and defaults of absent ones."""
    parts: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name not in description:
            if not field.is_required():
                parts[name] = field.get_default(call_default_factory=True)
            continue
        try:
            annotation: Any = field.annotation
            if field.metadata:
                annotation = Annotated[(annotation, *field.metadata)]
            adapter: TypeAdapter[Any] = TypeAdapter(annotation)
            parts[name] = adapter.validate_python(description[name])
        except (ValidationError, ScenarioError):
            continue
    return parts


def faults_of(error: ValidationError, model: type[BaseModel], description: Any) -> list[Fault]:
    """Return pydantic's errors as faults, one per field.

    `description` was validated as `model`. Both serve to leave the branches of a choice out of a field's name, to
    suggest the nearest existing field for a misspelt one, and to list the kinds of a choice.
    """
    found: dict[str, dict[_Finding, None]] = {}
    for finding in error.errors():
        if not _of_lost_items(finding):
            place = _locate(model, description, finding["loc"])
            found.setdefault(place.name, {})[_in_words(finding, place)] = None
    return [Fault(name, _together(list(findings))) for name, findings in found.items()]


class _Place(NamedTuple):
    """Field that an error is about."""

    name: str
    """Dotted name of the field as the user wrote it."""
    siblings: list[str]
    """Names of the fields allowed beside it; empty where unknown."""
    field: Any
    """Pydantic's description of the field; None where unknown."""

    @property
    def models(self) -> list[type[BaseModel]]:
        """Models that may validate the field."""
        return [] if self.field is None else list(_models_in([self.field.annotation, *self.field.metadata]))

    @property
    def kinds(self) -> list[str]:
        """Kinds that the field accepts."""
        return [str(one.model_fields["kind"].default) for one in self.models if "kind" in one.model_fields]


def _locate(model: type[BaseModel], value: Any, steps: tuple[int | str, ...]) -> _Place:
    """Return the field that an error of pydantic is about.

    Args:
        model: Model that the value was validated as.
        value: Value of all fields.
        steps: Location in pydantic's error: names of fields, branches of choices, and indices of lists.
    """
    names: list[str] = []
    field: Any = None
    place: type[BaseModel] | None = model
    branch: Any = None
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if branch is not None and step == branch:
            branch = None  # skipped once only: a field may have the same name as its component's kind
        elif isinstance(step, int) and isinstance(value, list | tuple):
            names.append(str(step))
            value = value[step] if step < len(value) else None
            place, branch = None if field is None else _model_for(field, value), _kind_of(value)
        elif place is not None and (step in place.model_fields or (last and isinstance(value, Mapping))):
            if step not in place.model_fields and step not in value:
                continue
            names.append(str(step))
            field, siblings = place.model_fields.get(str(step)), sorted(place.model_fields)
            if last:
                return _Place(".".join(names), siblings, field)
            value = value.get(step) if isinstance(value, Mapping) else None
            place, branch = None if field is None else _model_for(field, value), _kind_of(value)
        elif isinstance(value, Mapping) and step in value:
            names.append(str(step))
            value, field = value[step], None
    return _Place(".".join(names), [], field)


def _kind_of(value: Any) -> Any:
    return value.get("kind") if isinstance(value, Mapping) else None


def _model_for(field: Any, value: Any) -> type[BaseModel] | None:
    """Return the model that validates the field's value: of several, the one with the value's kind; None: unknown."""
    models = list(_models_in([field.annotation, *field.metadata]))
    if isinstance(value, Mapping) and "kind" in value:
        for candidate in models:
            kind = candidate.model_fields.get("kind")
            if kind is not None and kind.default == value["kind"]:
                return candidate
    return models[0] if len(models) == 1 else None


def _models_in(annotations: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside annotations, at any depth."""
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        else:
            yield from _models_in(get_args(annotation))


class _Finding(NamedTuple):
    """Wording of one error."""

    wanted: str
    """Requirement, such as `must be a list`."""
    got: str = ""
    """End of the sentence with the value that came."""


def _together(findings: list[_Finding]) -> str:
    """Return one sentence that joins several errors of one field."""
    if len({one.got for one in findings}) == 1:
        return ", or ".join(one.wanted for one in findings) + findings[0].got
    return ", or ".join(one.wanted + one.got for one in findings)


def _of_lost_items(finding: Any) -> bool:
    """Whether a list is too short only because its invalid items were not counted."""
    return bool(finding["type"] == "too_short" and len(finding["input"]) >= finding["ctx"]["min_length"])


def _in_words(finding: Any, place: _Place) -> _Finding:
    """Return one error of pydantic (`finding`) about the field `place`, worded for a user."""
    context, came, kinds = finding.get("ctx", {}), finding["input"], ", ".join(place.kinds)
    match finding["type"]:
        case "extra_forbidden":
            near = nearest(place.name.rpartition(".")[2], place.siblings)
            hint = f"did you mean {near}?" if near else f"fields here are {', '.join(place.siblings)}"
            return _Finding(f"is no field; {hint}" if place.siblings else "is no field")
        case "missing":
            return _Finding("is required and missing")
        case "union_tag_invalid":
            tags, chooser = str(context["expected_tags"]).split(", "), str(context["discriminator"])
            known = ", ".join(tag.strip("'") for tag in tags if tag != "'own'")
            # Choices by a function are choices of components by kind.
            field = chooser.strip("'") if chooser.startswith("'") else "kind"
            own = " or my_module:MyClass" if "'own'" in tags else ""
            return _Finding(f"{field} must be one of {known}{own}", f", got {context['tag']!r}")
        case "union_tag_not_found":
            wanted = "must be a mapping with a kind" + (f" ({kinds})" if kinds else "")
            return _Finding(wanted, ", got one without" if isinstance(came, Mapping) else _got(came, place))
        case "model_type" | "model_attributes_type" | "dict_type" | "mapping_type":
            fields = ", ".join(place.models[0].model_fields) if len(place.models) == 1 else ""
            return _Finding("must be a mapping" + (f" with the fields {fields}" if fields else ""), _got(came, place))
        case "list_type" | "tuple_type":
            return _Finding("must be a list", _got(came, place))
        case "too_short":
            return _Finding(f"must list at least {context['min_length']}", f", got {context['actual_length']}")
        case "int_from_float":
            wanted = "must be a whole number"
        case "literal_error":
            wanted = f"must be {context['expected']}"
        case _:
            message = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
            wanted = message.replace("Input should be", "must be").split(", unable to")[0]
    if _SAID.search(wanted):
        return _Finding(wanted)
    if isinstance(came, Mapping) and not finding["type"].endswith(("_type", "_parsing", "literal_error")):
        return _Finding(wanted)  # a rule about several fields; its message names them
    if kinds and not isinstance(came, Mapping):
        wanted += f" or a mapping with a kind ({kinds})"
    return _Finding(wanted, _got(came, place))


_SAID = re.compile(r"\bgot\b")


def _got(came: Any, place: _Place) -> str:
    """Return the end of a message: the value that came, and the nearest kind if it is a misspelt one."""
    if isinstance(came, Mapping):
        return ", got a mapping"
    near = nearest(came, place.kinds) if isinstance(came, str) else None
    hint = f"; did you mean {{kind: {near}}}?" if near else ""
    return f", got {shortened(repr(came))}{hint}"
