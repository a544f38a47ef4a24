"""Sections and components of a scenario, and their fields, each with its place in the file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from asyncfl.base.component import Component
from asyncfl.base.field_texts import text_of
from asyncfl.manual.prose import Prose, joined, prose_of
from asyncfl.manual.words import default_words, models_of, own_base, range_words, type_of_field, unit_of_field
from asyncfl.scenario import Scenario


@dataclass(frozen=True)
class Part:
    """A section, or a component, at one place of a scenario."""

    model: type[BaseModel]
    place: str
    """Dotted name of the field that holds it, as `--set` takes it; empty for the scenario itself."""
    holder: str = ""
    """The name to ask for that field by."""
    kind: str = ""
    """How a scenario names it where it is a component, one of several to choose among; empty for a section."""

    @property
    def path(self) -> str:
        """The name to ask for it by: `defence.rule.krum`, `training`."""
        return ".".join(filter(None, (self.holder, self.kind)))

    @property
    def title(self) -> str:
        """`krum (Krum)`, `training`."""
        return f"{self.kind} ({self.model.__name__})" if self.kind else self.path or "scenario"

    @cached_property
    def prose(self) -> Prose:
        """What its docstring says."""
        return prose_of(self.model.__doc__)

    @property
    def source(self) -> str:
        """Where it comes from: a paper with its equation, `ours`, or what else its docstring or its module names."""
        return self.prose.source or prose_of(sys.modules[self.model.__module__].__doc__).source

    @property
    def theory(self) -> str:
        """The header of its module, beyond the first line: formulas and readings; empty where there is no more.

        Of a module with several components it may speak of all of them.
        """
        return "\n\n".join(prose_of(sys.modules[self.model.__module__].__doc__).body)

    @property
    def fields(self) -> list[FieldEntry]:
        """Its fields in the order of the class; without the `kind` that chose it."""
        names = [name for name in self.model.model_fields if not (self.kind and name == "kind")]
        return [self.field(name) for name in names]

    def field(self, name: str) -> FieldEntry:
        """The field of a name. Raises KeyError."""
        return FieldEntry(self, name, self.model.model_fields[name])


@dataclass(frozen=True)
class FieldEntry:
    """A field of a part."""

    owner: Part
    name: str
    info: FieldInfo

    @property
    def path(self) -> str:
        """The name to ask for it by: `defence.rule.krum.byzantine`."""
        return ".".join(filter(None, (self.owner.path, self.name)))

    @property
    def place(self) -> str:
        """Its dotted name in a scenario, as `--set` takes it: `defence.rule.byzantine`."""
        return ".".join(filter(None, (self.owner.place, self.name)))

    @cached_property
    def prose(self) -> Prose:
        """What its docstring says."""
        return prose_of(text_of(self.owner.model, self.name))

    @property
    def text(self) -> str:
        """All that its docstring says but the source, in one paragraph."""
        return joined(self.prose.text)

    @property
    def type_words(self) -> str:
        """What may be written there, in words."""
        return type_of_field(self.info)

    @property
    def unit(self) -> str:
        """Unit of its number; `1` for one without a unit; empty for what is no number."""
        return unit_of_field(self.name, self.info)

    @property
    def range(self) -> str:
        """Limits of its numbers; empty where there are none."""
        return range_words(self.info)

    @property
    def default(self) -> str:
        """Its default as YAML; empty where it must be given."""
        return default_words(self.info)

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.info.is_required()

    @property
    def source(self) -> str:
        """Where it comes from, or what it belongs to."""
        return self.prose.source or self.owner.source

    @property
    def parts(self) -> list[Part]:
        """The sections or components that it may hold."""
        return [Part(model, self.place, self.path, self._kind(model)) for model in models_of(self.info)]

    @property
    def holders(self) -> list[Part]:
        """The same, what does nothing (`kind: none`) last: fields that it inherits are better shown elsewhere."""
        return sorted(self.parts, key=lambda part: part.kind == "none")

    def _kind(self, model: type[BaseModel]) -> str:
        return "" if self.base is None else str(model.model_fields["kind"].default)

    @property
    def choices(self) -> list[Part]:
        """The components among them, one of which is named by its `kind`."""
        return [part for part in self.parts if part.kind]

    @property
    def many(self) -> bool:
        """Whether it is a list."""
        return get_origin(self.info.annotation) in (tuple, list)

    @property
    def keyed(self) -> bool:
        """Whether it is a mapping from names of the user's own."""
        return get_origin(self.info.annotation) is dict

    @property
    def base(self) -> type[Component] | None:
        """What a component of a user's own derives from there; None: it holds none."""
        return own_base(self.info)

    @property
    def example(self) -> Any:
        """A value to write there: the first of its examples, else its default."""
        if self.info.examples:
            return self.info.examples[0]
        return None if self.required else self.info.get_default(call_default_factory=True)


def scenario_part() -> Part:
    """The scenario itself, in which all the others have their places."""
    return Part(Scenario, "")


def all_parts() -> list[Part]:
    """Every section and component, at the first place where it may stand, from the outside in."""
    return [part for part, _ in _walk()]


def sections() -> list[Part]:
    """The sections: mappings without a kind, the scenario first."""
    return [part for part in all_parts() if not part.kind]


def components() -> list[Part]:
    """Every built-in component, once."""
    return [part for part in all_parts() if part.kind]


def places_of(model: type[BaseModel]) -> list[str]:
    """Dotted names of the fields that may hold a class, each once."""
    return [place for part, places in _walk() if part.model is model for place in places]


@cache
def _walk() -> list[tuple[Part, list[str]]]:
    """Each class once, with all its places; below a class that was met before nothing is looked for again."""
    found: dict[type[BaseModel], tuple[Part, list[str]]] = {Scenario: (scenario_part(), [""])}
    waiting = [scenario_part()]
    while waiting:
        for field in waiting.pop(0).fields:
            for part in field.holders:
                if part.model in found:
                    places = found[part.model][1]
                    if part.place not in places:
                        places.append(part.place)
                else:
                    found[part.model] = part, [part.place]
                    waiting.append(part)
    return list(found.values())
