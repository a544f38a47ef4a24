"""Find a field, section or component by its name, or a class of the user's own by its import path."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import PydanticCustomError

from asyncfl.base.component import Component, load_custom
from asyncfl.base.errors import ScenarioError, nearest
from asyncfl.manual.parts import SCENARIO, FieldEntry, Part, all_parts

Entry = FieldEntry | Part


def find(name: str) -> list[Entry]:
    """Return the field, section or component of a name; several where components that may stand there differ in it.

    name: a dotted name, with or without the kinds on the way (`defence.rule.krum.byzantine`, `privacy.epsilon`), its
    unambiguous end, a kind or class (`krum`, `Krum`), or the import path of a class of one's own. Raises ScenarioError
    that names the nearest, or all that the name may mean.
    """
    if ":" in name:
        return [_own(name)]
    steps = [step for step in name.strip(".").split(".") if not step.isdigit()]
    if found := _distinct(_reached(steps)):
        return found
    found = _distinct(_ending_in(steps))
    if len(found) > 1:
        raise ScenarioError(f"{name} may be {', '.join(sorted(one.path for one in found))}")
    if not found:
        raise ScenarioError(f"there is no field, section or component {name}; {_near(name)}")
    return found


def known_paths() -> list[str]:
    """Return the name of every section, component and field, those of each class once, sorted."""
    return sorted(entry.path for entry in _all() if entry.path)


def way_to(path: str) -> list[Entry]:
    """Return the scenario, and each field and component on the way to a known path, in order."""
    ways: list[list[Entry]] = [[SCENARIO]]
    for step in path.split(".") if path else []:
        ways = [[*way, one] for way in ways for one in _below(way[-1], step)]
    return ways[0]


def _all() -> Iterator[Entry]:
    for part in all_parts():
        yield part
        yield from part.fields


def _reached(steps: list[str]) -> list[Entry]:
    """Return everything that the steps lead to from the scenario on."""
    reached: list[Entry] = [SCENARIO]
    for step in filter(None, steps):
        reached = [one for entry in reached for one in _below(entry, step)]
    return reached


def _below(entry: Entry, step: str) -> list[Entry]:
    if isinstance(entry, Part):
        return [entry.field(step)] if step in entry.model.model_fields else []
    chosen: list[Entry] = [part for part in entry.choices if part.kind == step]
    return chosen or [part.field(step) for part in entry.holders if step in part.model.model_fields]


def _ending_in(steps: list[str]) -> list[Entry]:
    """Return all entries whose names end in the steps, components before fields; else classes of that name."""
    end = [step.lower() for step in steps]
    found = [entry for entry in _all() if entry.path.lower().split(".")[-len(end) :] == end]
    if not found and len(end) == 1:
        return [part for part in all_parts() if part.model.__name__.lower() == end[0]]
    return [entry for entry in found if isinstance(entry, Part)] or found


def _distinct(found: list[Entry]) -> list[Entry]:
    """Drop entries that say the same as an earlier one, as a field that several components inherit does."""
    kept: dict[object, Entry] = {}
    for one in found:
        key = one.model if isinstance(one, Part) else (one.name, one.text, one.type_words, one.default)
        kept.setdefault(key, one)
    return list(kept.values())


def _near(name: str) -> str:
    """Suggest the nearest name: of the section that was named, else of all."""
    above, _, last = name.rpartition(".")
    if above and (holders := _reached(above.split("."))):
        beside = list(dict.fromkeys(one for holder in holders for one in _names_below(holder)))
        near = nearest(last, beside)
        return f"did you mean {above}.{near}?" if near else f"below {above} there are {', '.join(beside)}"
    paths = known_paths()
    near = nearest(name, [*paths, *(path.rpartition(".")[2] for path in paths)])
    return f"did you mean {near}?" if near else f"sections are {', '.join(_names_below(SCENARIO))}"


def _names_below(entry: Entry) -> list[str]:
    if isinstance(entry, Part):
        return [field.name for field in entry.fields]
    return [part.kind for part in entry.choices] + [field.name for part in entry.parts for field in part.fields]


def _own(path: str) -> Part:
    """Return the user's component of an import path, at the first place of its base class. Raises ScenarioError."""
    try:
        model = load_custom(path, Component)
    except PydanticCustomError as error:
        raise ScenarioError(error.message()) from None
    fields = (field for part in all_parts() for field in part.fields)
    holder = next((field for field in fields if field.base is not None and issubclass(model, field.base)), None)
    if holder is None:
        raise ScenarioError(f"{path} derives from no base class of components ({model.__mro__[1].__name__})")
    return Part(model, holder.place, holder.path, path)
