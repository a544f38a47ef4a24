"""Sections and components of a scenario, and their fields, each with its place in the file.

Type, unit and range come from the JSON schema, meaning and source from docstrings.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from asyncfl.base.component import Choice, Component, kind_of
from asyncfl.base.field_texts import schema_with_texts, text_of
from asyncfl.scenario import Scenario

UNITS = {
    "_s_per_sample": "s per sample",
    "_s_per_number": "s per number",
    "_per_s": "1/s",
    "_s": "s",
    "_h": "h",
    "_w": "W",
    "_bps": "bit/s",
    "_bytes": "bytes",
}
"""End of a field's name -> unit."""
OWN_DEFAULTS = "its own defaults"
"""Default of a section whose fields all have theirs."""
_SOURCE = re.compile(r"\bSources?: (.+?)(?:\.(?=\s+[A-Z`])|\.?\s*$)", flags=re.DOTALL)
"""`Source: Blanchard et al. 2017, section 4.`: up to the full stop that ends the sentence, or to its end."""


class Prose(NamedTuple):
    """A docstring without its source: first paragraph, further paragraphs, and the source."""

    summary: str
    body: tuple[str, ...]
    source: str

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, [self.summary, *self.body]))


def prose_of(docstring: str | None) -> Prose:
    """Split a docstring. Paragraphs become single lines, except indented ones and lists."""
    sources, paragraphs = [], []
    for paragraph in map(joined, re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))):
        if found := _SOURCE.search(paragraph):
            sources.append(found[1].strip())
            around = paragraph[: found.start()].strip(), paragraph[found.end() :].lstrip(". ")
            paragraph = " ".join(filter(None, around))
        paragraphs.append(paragraph)
    return Prose(paragraphs[0], tuple(filter(None, paragraphs[1:])), "; ".join(sources))


def joined(paragraph: str) -> str:
    """Return a paragraph in one line; one with indented lines or list items stays as it is."""
    lines = paragraph.splitlines()
    if any(line.startswith(("    ", "- ", "| ")) for line in lines):
        return paragraph
    return " ".join(line.strip() for line in lines)


def first_sentence(text: str) -> str:
    """Return the text up to the first full stop that ends a sentence, without it."""
    return re.split(r"\.(?=\s+[A-Z`]|\s*$)", text, maxsplit=1)[0]


@dataclass(frozen=True)
class Part:
    """A section, or a component, at one place of a scenario."""

    model: type[BaseModel]
    place: str
    """Dotted name of the field that holds it, as `--set` takes it; empty for the scenario itself."""
    holder: str = ""
    """Name of that field with the kinds on the way."""
    kind: str = ""
    """Kind of a component; empty for a section."""

    @property
    def path(self) -> str:
        """Name for `explain`: `defence.rule.krum`, `training`."""
        return ".".join(filter(None, (self.holder, self.kind)))

    @property
    def import_path(self) -> str:
        return f"{self.model.__module__}.{self.model.__qualname__}"

    @cached_property
    def prose(self) -> Prose:
        return prose_of(self.model.__doc__)

    @property
    def header(self) -> Prose:
        """Docstring of its module, which may concern several components."""
        return prose_of(sys.modules[self.model.__module__].__doc__)

    @property
    def source(self) -> str:
        """Paper and equation, from the docstring of the class or else of its module."""
        return self.prose.source or self.header.source

    @property
    def theory(self) -> str:
        """Header of its module without the first paragraph."""
        return "\n\n".join(self.header.body)

    @property
    def logged(self) -> list[str]:
        """Columns and events in which it shows, those of base classes first: `rounds.clip_norm`."""
        named = [name for cls in reversed(self.model.__mro__) for name in vars(cls).get("logged", ())]
        return list(dict.fromkeys(named))

    @property
    def fields(self) -> list[FieldEntry]:
        """Fields in the order of the class, without `kind`."""
        return [self.field(name) for name in self.model.model_fields if not (self.kind and name == "kind")]

    def field(self, name: str) -> FieldEntry:
        return FieldEntry(self, name, self.model.model_fields[name])


@dataclass(frozen=True)
class FieldEntry:
    """A field of a part."""

    owner: Part
    name: str
    info: FieldInfo

    @property
    def path(self) -> str:
        """Name for `explain`: `defence.rule.krum.byzantine`."""
        return ".".join(filter(None, (self.owner.path, self.name)))

    @property
    def place(self) -> str:
        """Dotted name as `--set` takes it: `defence.rule.byzantine`."""
        return ".".join(filter(None, (self.owner.place, self.name)))

    @cached_property
    def prose(self) -> Prose:
        return prose_of(text_of(self.owner.model, self.name))

    @property
    def text(self) -> str:
        """Its docstring without the source, in one paragraph."""
        return joined(self.prose.text)

    @property
    def source(self) -> str:
        return self.prose.source or self.owner.source

    @property
    def _node(self) -> Node:
        """The field in the JSON schema of its class."""
        schema = _schema(self.owner.model)
        node: Node = _resolved(schema, schema.get("$defs", {}))["properties"][self.name]
        return node

    @property
    def type_words(self) -> str:
        """Type in words: `whole number or null`, `auto | cpu | cuda`, `list of numbers`."""
        return _type(self._node, _schema(self.owner.model).get("$defs", {}))

    @property
    def unit(self) -> str:
        """Unit of its number; `1` for one without a unit; empty for other types."""
        units = [one["unit"] for one in _plain_nodes(self._node) if "unit" in one]
        return units[0] if units else next((unit for end, unit in UNITS.items() if f"_{self.name}".endswith(end)), "")

    @property
    def range(self) -> str:
        """Limits of its numbers, `>= 1, <= 10`, with their types where these differ; empty without limits."""
        numbers = [one for one in _plain_nodes(self._node) if one.get("type") in ("integer", "number")]
        limited = dict.fromkeys((_type(one, {}), _limits(one)) for one in numbers if _limits(one))
        return "; ".join(limits if len(limited) == 1 else f"{word} {limits}" for word, limits in limited)

    @property
    def default(self) -> str:
        """Default as YAML; empty for a required field."""
        return "" if self.required else as_written(self.info.get_default(call_default_factory=True))

    @property
    def required(self) -> bool:
        return self.info.is_required()

    @property
    def parts(self) -> list[Part]:
        """Sections or components that it may hold, in the order in which they are offered."""
        found = [one for one in _annotated(self.info) if isinstance(one, type) and issubclass(one, BaseModel)]
        kinds = {one: str(one.model_fields["kind"].default) if self.base is not None else "" for one in found}
        return [Part(model, self.place, self.path, kind) for model, kind in kinds.items()]

    @property
    def choices(self) -> list[Part]:
        """The components among its parts."""
        return [part for part in self.parts if part.kind]

    @property
    def holders(self) -> list[Part]:
        """Its parts, `kind: none` last: fields that this inherits are better explained elsewhere."""
        return sorted(self.parts, key=lambda part: part.kind == "none")

    @property
    def base(self) -> type[Component] | None:
        """Base class of a user's own components there; None: it takes none."""
        return next((one.base for one in _annotated(self.info) if isinstance(one, Choice)), None)

    @property
    def example(self) -> Any:
        """Its first example, else its default."""
        if self.info.examples:
            return self.info.examples[0]
        return None if self.required else self.info.get_default(call_default_factory=True)


SCENARIO = Part(Scenario, "")


def all_parts() -> list[Part]:
    """Return every section and component, at the first place where it may stand, from the outside in."""
    return [part for part, _ in _walk()]


def components() -> list[Part]:
    """Return every built-in component once."""
    return [part for part in all_parts() if part.kind]


def places_of(model: type[BaseModel]) -> list[str]:
    """Return the dotted names of the fields that may hold a class, each once."""
    return [place for part, places in _walk() if part.model is model for place in places]


@cache
def _walk() -> list[tuple[Part, list[str]]]:
    """Return each class once, with all its places."""
    found: dict[type[BaseModel], tuple[Part, list[str]]] = {Scenario: (SCENARIO, [""])}
    waiting = [SCENARIO]
    while waiting:
        for part in (part for field in waiting.pop(0).fields for part in field.holders):
            if part.model not in found:
                found[part.model] = part, []
                waiting.append(part)
            if part.place not in (places := found[part.model][1]):
                places.append(part.place)
    return list(found.values())


Node = Mapping[str, Any]
"""Part of a JSON schema."""


def _annotated(annotation: Any) -> Iterator[Any]:
    """Yield the parts of an annotation at any depth, including types that validators read instead."""
    if isinstance(annotation, FieldInfo):
        taken = [getattr(one, "json_schema_input_type", None) for one in annotation.metadata]
        for one in (annotation.annotation, *taken, *annotation.metadata):
            yield from _annotated(one)
        return
    yield annotation
    for one in annotation.kinds.values() if isinstance(annotation, Choice) else get_args(annotation):
        yield from _annotated(one)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return schema_with_texts(model)


def _resolved(node: Node, defs: Node) -> Node:
    return defs[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def _plain_nodes(node: Node) -> Iterator[Node]:
    """Yield a node of a JSON schema and the nodes inside it, outside of components."""
    yield node
    items = [node["items"]] if "items" in node else []
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ()), *items, *node.get("prefixItems", ())):
        yield from _plain_nodes(one)


_NAMES = {"boolean": "true or false", "integer": "whole number", "number": "number", "string": "text", "null": "null"}


def _type(node: Node, defs: Node, many: bool = False) -> str:
    """Return the type of a node of a JSON schema in words. many: in the plural."""
    node = _resolved(node, defs)
    if "anyOf" in node or "oneOf" in node:
        return " or ".join(_alternatives(node, defs, many))
    if "const" in node or "enum" in node:
        given = node.get("enum", [node.get("const")])
        return " | ".join(one if isinstance(one, str) else json.dumps(one) for one in given)
    match node.get("type"):
        case "array" if "prefixItems" in node:
            inner = node["prefixItems"]
            return f"list of {len(inner)}: " + ", ".join(_type(one, defs) for one in inner)
        case "array":
            return f"list of {_type(node.get('items', {}), defs, many=True)}"
        case "object" if "properties" not in node:
            [inner] = node.get("patternProperties", {"": node.get("additionalProperties")}).values()
            return f"mapping of names to {_type(inner, defs, many=True)}" if isinstance(inner, dict) else "mapping"
        case "object":
            return "components" if many and "kind" in node.get("properties", {}) else "mapping"
    word = _NAMES.get(str(node.get("type")), "anything")
    return f"{word}s" if many and word in ("whole number", "number", "text") else word


def _alternatives(node: Node, defs: Node, many: bool) -> list[str]:
    """Return the alternatives of a node in words, a choice of components as one of them, null last."""
    kinds, others = [], []
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        kind = _resolved(one, defs).get("properties", {}).get("kind", {})
        if "const" in kind or "pattern" in kind:
            kinds.append(kind.get("const", "my_module:MyClass"))
        else:
            others.append(_type(one, defs, many))
    if kinds:
        others.append(f"{'components of kind' if many else 'kind'} {', '.join(kinds)}")
    return sorted(others, key=lambda word: word == "null")


def _limits(node: Node) -> str:
    signs = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
    limits = {sign: node[name] for sign, name in signs.items() if name in node}
    return ", ".join(
        f"{sign} {limit:,.0f}" if limit == round(limit) else f"{sign} {limit:g}" for sign, limit in limits.items()
    )


def as_written(value: Any) -> str:
    """Return a value as YAML in one line; of a component only its kind and what differs from that kind's defaults."""
    match value:
        case BaseModel():
            plain = value.model_dump(mode="json")
            if not isinstance(plain, dict):
                return as_written(plain)
            changed = {
                name: plain[name]
                for name, field in type(value).model_fields.items()
                if name != "kind"
                and (field.is_required() or getattr(value, name) != field.get_default(call_default_factory=True))
            }
            kind = {"kind": kind_of(value)} if isinstance(value, Component) and hasattr(value, "kind") else {}
            if kind == {"kind": "fixed"} and list(changed) == ["value"]:
                return as_written(changed["value"])
            given = {name: plain[name] for name in plain if name in value.model_fields_set}
            return as_written({**kind, **(changed or given)}) if kind or changed or given else OWN_DEFAULTS
        case None | bool():
            return json.dumps(value)
        case float():
            if math.isinf(value):
                return ".inf" if value > 0 else "-.inf"
            if value >= 1e6 and value % 1e6 == 0:
                return f"{value / 1e6:g}e6"
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        case list() | tuple():
            return "[" + ", ".join(map(as_written, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{name}: {as_written(one)}" for name, one in value.items()) + "}"
    return str(value)
