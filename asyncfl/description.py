"""Reading what a user wrote: YAML files, dotted fields, and pydantic's findings in words a user can act on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from asyncfl.errors import Fault, ScenarioError


def read_yaml(path: str | Path) -> Any:
    """Plain values of a YAML file. Raises ScenarioError where it is missing or no YAML."""
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise ScenarioError("is not a text file in UTF-8", path) from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        place = f" in line {where.line + 1}" if where else ""
        raise ScenarioError(f"is no YAML{place}: {getattr(error, 'problem', None) or error}", path) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-5 and 10e6 are numbers (YAML 1.1 wants a point in them) and no key stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"field {key_node.value!r} stands twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


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


def sound_parts(model: type[BaseModel], description: Mapping[str, Any]) -> dict[str, Any]:
    """Those top-level fields of `description` that are valid by themselves, validated, and defaults for absent ones."""
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
    """The findings of pydantic, one fault per field, in the words of this package.

    `model` and `description` are what was validated: with them the names of a choice's branches are left out of a
    field's name, and a misspelt field is answered with the nearest that exists.
    """
    found: dict[str, list[str]] = {}
    for finding in error.errors():
        name, siblings = _locate(model, description, finding["loc"])
        message = _in_words(finding, name, siblings)
        if message not in found.setdefault(name, []):
            found[name].append(message)
    return [Fault(name, ", or ".join(messages)) for name, messages in found.items()]


def _locate(model: type[BaseModel], value: Any, steps: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Dotted name of a field as the user wrote it, and the names of the fields that its place allows."""
    names: list[str] = []
    place: type[BaseModel] | None = model
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        if isinstance(step, int) and isinstance(value, list | tuple):
            names.append(str(step))
            value = value[step] if step < len(value) else None
        elif place is not None and (step in place.model_fields or (last and isinstance(value, Mapping))):
            if step not in place.model_fields and step not in value:
                continue
            names.append(str(step))
            if last:
                return ".".join(names), sorted(place.model_fields)
            value = value.get(step) if isinstance(value, Mapping) else None
            place = _model_for(place.model_fields[str(step)], value) if step in place.model_fields else None
        elif isinstance(value, Mapping) and step in value:
            names.append(str(step))
            value = value[step]
    return ".".join(names), []


def _model_for(field: Any, value: Any) -> type[BaseModel] | None:
    """The model that a field's value is read with: of several, the one whose kind it names."""
    models = list(_models_in([field.annotation, *field.metadata]))
    if isinstance(value, Mapping) and "kind" in value:
        for candidate in models:
            kind = candidate.model_fields.get("kind")
            if kind is not None and kind.default == value["kind"]:
                return candidate
    return models[0] if len(models) == 1 else None


def _models_in(annotations: Any) -> Iterator[type[BaseModel]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        else:
            yield from _models_in(get_args(annotation))


def _in_words(finding: Any, name: str, siblings: list[str]) -> str:
    context, came = finding.get("ctx", {}), finding["input"]
    match finding["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(name.rpartition(".")[2], siblings, n=1)
            hint = f"did you mean {near[0]}?" if near else f"fields here are {', '.join(siblings)}"
            return f"is no field; {hint}" if siblings else "is no field"
        case "missing":
            return "is required and missing"
        case "union_tag_invalid":
            kinds = ", ".join(tag.strip("'") for tag in str(context["expected_tags"]).split(", ") if tag != "'own'")
            return f"kind must be one of {kinds} or my_module:MyClass, got {context['tag']!r}"
        case "union_tag_not_found":
            return f"must be a mapping with a kind, got {_shown(came)}"
        case "literal_error":
            return f"must be {context['expected']}, got {_shown(came)}"
        case "own_component" | "value_error" | "assertion_error":
            message = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
            return f"{message}, got {_shown(came)}"
        case _:
            message = str(finding["msg"]).replace("Input should be", "must be").split(", unable to")[0]
            return f"{message}, got {_shown(came)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
