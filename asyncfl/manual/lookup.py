"""What a name stands for: a field, a section or a component of a scenario, or one of the user's own."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import PydanticCustomError

from asyncfl.base.component import Component, load_custom
from asyncfl.base.errors import ScenarioError, nearest
from asyncfl.manual.parts import FieldEntry, Part, all_parts, scenario_part

Entry = FieldEntry | Part


def find(name: str) -> list[Entry]:
    """The field, section or component that is meant; several where components that may stand there differ in it.

    name: a dotted name, with or without the kinds on the way (`defence.rule.krum.byzantine`, `privacy.epsilon`); the
    end of one, or a bare kind or class (`krum`, `Krum`), where that is unambiguous; or the import path of a class of
    one's own. Raises ScenarioError that names the nearest, or all that a bare name may mean.
    """
    if ":" in name:
        return [_own(name)]
    steps = [step for step in name.strip(".").split(".") if not step.isdigit()]
    if found := _alike(_resolved(steps)):
        return found
    found = _alike(_ending_in(steps))
    if len(found) > 1:
        raise ScenarioError(f"{name} may be {', '.join(sorted(one.path for one in found))}")
    if not found:
        raise ScenarioError(f"there is no field, section or component {name}; {_near(name)}")
    return found


def known_paths() -> list[str]:
    """The name of every section, component and field, those of each class once, sorted."""
    return sorted(entry.path for entry in _all() if entry.path)


def _all() -> Iterator[Entry]:
    for part in all_parts():
        yield part
        yield from part.fields


def _resolved(steps: list[str]) -> list[Entry]:
    """What the steps lead to from the scenario on, by every way."""
    reached: list[Entry] = [scenario_part()]
    for step in steps:
        reached = [one for entry in reached for one in _below(entry, step)]
    return reached if steps and steps != [""] else [scenario_part()]


def _below(entry: Entry, step: str) -> Iterator[Entry]:
    if isinstance(entry, Part):
        if step in entry.model.model_fields:
            yield entry.field(step)
        return
    chosen = [part for part in entry.choices if part.kind == step]
    yield from chosen
    if not chosen:
        yield from (part.field(step) for part in entry.holders if step in part.model.model_fields)


def _ending_in(steps: list[str]) -> list[Entry]:
    """Of all that there is, what the steps are the end of; a class by its name, too."""
    end = [step.lower() for step in steps]
    found = [entry for entry in _all() if entry.path.lower().split(".")[-len(end) :] == end]
    parts = [entry for entry in found if isinstance(entry, Part)]
    if not found and len(end) == 1:
        return [part for part in all_parts() if part.model.__name__.lower() == end[0]]
    # A component comes before the fields that have its name.
    return list(parts or found)


def _alike(found: list[Entry]) -> list[Entry]:
    """Without those that say the same as one before, as a field that several components inherit does."""
    kept: dict[object, Entry] = {}
    for entry in found:
        said = () if isinstance(entry, Part) else (entry.name, entry.text, entry.type_words, entry.default)
        kept.setdefault(entry.model if isinstance(entry, Part) else said, entry)
    return list(kept.values())


def _near(name: str) -> str:
    """The nearest names that there are: of what stands beside it, else of all."""
    above, _, last = name.rpartition(".")
    if above and (holders := _resolved(above.split("."))):
        beside = list(dict.fromkeys(one for holder in holders for one in _names_below(holder)))
        near = nearest(last, beside)
        return f"did you mean {above}.{near}?" if near else f"below {above} there are {', '.join(beside)}"
    paths = known_paths()
    near = nearest(name, [*paths, *(path.rpartition(".")[2] for path in paths)])
    return f"did you mean {near}?" if near else f"sections are {', '.join(_names_below(scenario_part()))}"


def _names_below(entry: Entry) -> list[str]:
    if isinstance(entry, Part):
        return [field.name for field in entry.fields]
    own = [part.kind for part in entry.choices]
    return own + [field.name for part in entry.parts for field in part.fields]


def _own(path: str) -> Part:
    """The user's own component of an import path. Raises ScenarioError."""
    try:
        model = load_custom(path, Component)
    except PydanticCustomError as error:
        raise ScenarioError(error.message()) from None
    holders = [
        field
        for part in all_parts()
        for field in part.fields
        if field.base is not None and issubclass(model, field.base)
    ]
    if not holders:
        raise ScenarioError(f"{path} derives from no base class of components ({model.__mro__[1].__name__})")
    return Part(model, holders[0].place, holders[0].path, path)


def steps_to(path: str) -> list[Entry]:
    """The scenario, and each field and component on the way to a known path, in order."""
    reached: list[list[Entry]] = [[scenario_part()]]
    for step in path.split(".") if path else []:
        reached = [[*way, one] for way in reached for one in _below(way[-1], step)]
    return reached[0]
