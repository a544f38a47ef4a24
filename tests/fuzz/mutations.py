"""Seeded mutations of descriptions: what a typo, a wrong unit or bad luck makes of a file that was sound.

A description is a tree of mappings, lists and plain values. One to three places of it are changed, and it is written as
YAML by hand, since some mutations (a key that stands twice, a tag, an alias) have no tree.
"""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Raw(str):
    """YAML text that is written as it stands."""


@dataclass(frozen=True)
class Mutant:
    """A description with something changed."""

    text: str
    change: str
    """What was done, in words."""
    nonsense: bool
    """Whether it must be refused: a string or a truth value where a number stood, a NaN, a negative size."""


_BOMB = (
    "{a: &a [x, x, x, x, x, x, x, x, x], b: &b [*a, *a, *a, *a, *a, *a, *a, *a], c: &c [*b, *b, *b, *b, *b, *b, *b, *b]"
)
_NUMBERS = [
    *("0", "-0.0", "1", "2", "3.5", "-1", "1e-320", "1e-9", "1e9", "1e18", "1e30", "1e308", "1e309", "-1e309"),
    *(".nan", ".inf", "-.inf", "2000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("9" * 400, "9" * 5000, "1" + "0" * 400 + ".5", "0x10", "017", "1_000", "1:30", "12:30:45.5", "1e1", "1.e+1"),
]
_OTHERS = [
    *("", "null", "true", "yes", "off", "'0.1'", "'1'", "''", "text", "[]", "{}", "[1, 2]", "[[[1]]]", "{kind: x}"),
    *("{kind: 3}", "{kind: [1]}", "{kind: 'no_module_of_mine:Thing'}", "{kind: '.:x'}", "{kind: ':'}"),
    *("{1: 2}", "{null: 2}", "{true: 2}", "{[1]: 2}", "{{a: 1}: 2}", "{? 2001-01-01 : 2}", "2001-02-30", "2001-01-01"),
    *("2001-01-01t25:61:61Z", "!!python/object:os.system x", "!!binary aGk=", "!!binary '*'", "!!float x", "!!int ''"),
    *("!!set {a, b}", "!!omap [a: 1]", "!!bool perhaps", "!own x", "!!timestamp soon", "!!null x", "!!str 5"),
    *("!!map [1]", "{kind: 'a b:c'}", "&a [*a]", "&m {x: *m}", "*nowhere", "{<<: 3}", "{<<: [1]}", "{<<: {kind: iid}}"),
    *("=", "<<", '"\\0"', '"\\ud800"'),
    *("[" * 1000, "[" * 1000 + "]" * 1000, "{a: " * 1000 + "1" + "}" * 1000, "x" * 5000, "'" + "é" * 5000 + "'"),
    *(_BOMB + ", d: *c}", "[" + ", ".join(["1"] * 3000) + "]", "'median'", "full", "replacement", "brightest", "auto"),
]
_NONSENSE = ["'0.1'", "'7'", "true", "no", "text", ".nan"]


def mutate(description: Any, rng: random.Random, donors: list[Any] | None = None) -> Mutant:
    """A mutant of `description`, which is left as it was; parts of `donors` may be grafted into it."""
    tree = copy.deepcopy(description)
    if rng.random() < 0.15:
        return _scribble(written(tree), rng)
    if rng.random() < 0.25:
        return _contradict(tree, rng)
    changes = [_change(tree, rng, donors or [description]) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return Mutant(written(tree), "; ".join(changes), nonsense=False)


def written(value: Any) -> str:
    """YAML (in flow style) of a tree."""
    match value:
        case Raw():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{written(key)}: {written(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(written, value)) + "]"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
        case _:
            return json.dumps(value)


def places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """(container, key, path) of every value below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key, (*above, key)
        yield from places(value, (*above, key))


def _change(tree: Any, rng: random.Random, donors: list[Any]) -> str:
    """Change one place of the tree, in place."""
    found = list(places(tree))
    if not found:
        return "nothing was left to change"
    container, key, path = rng.choice(found)
    name = ".".join(map(str, path))
    value = container[key]
    match rng.randrange(9):
        case 0 | 1 | 2:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            text = rng.choice(_NUMBERS if number and rng.random() < 0.7 else _NUMBERS + _OTHERS)
            container[key] = Raw(text)
            return f"{name} = {text[:40]}"
        case 3:
            del container[key]
            return f"{name} left out"
        case 4 if isinstance(container, dict):
            other = Raw(rng.choice([*_OTHERS[:40], *_NUMBERS[:8]])) if rng.random() < 0.4 else f"{key}x"
            container[other] = container.pop(key)
            return f"{name} called {str(other)[:40]}"
        case 5 if isinstance(container, dict):
            container[Raw(json.dumps(str(key)) + " ")] = copy.deepcopy(value)
            return f"{name} given twice"
        case 6:
            donor, step, origin = rng.choice(list(places(rng.choice(donors))))
            container[key] = copy.deepcopy(donor[step])
            return f"{name} = what stood in {'.'.join(map(str, origin))}"
        case 7:
            container[key] = rng.choice([[value], {"kind": value}, {str(key): value}, [value, value]])
            return f"{name} wrapped"
        case _ if isinstance(value, int | float) and not isinstance(value, bool):
            container[key] = value * rng.choice([-1, 0, 10, 1000, 1e6, 1e-6, 0.5])
            return f"{name} = {container[key]!r}"
        case _:
            container[key] = None
            return f"{name} = null"


def _contradict(tree: Any, rng: random.Random) -> Mutant:
    """A value of another type where a number or a truth value stood: this can never be meant."""
    numbers = [
        place for place in places(tree) if isinstance(place[0][place[1]], int | float) and place[2][-1] != "off_by"
    ]
    if not numbers:
        return Mutant(written(tree), "nothing", nonsense=False)
    container, key, path = rng.choice(numbers)
    if isinstance(container[key], bool):
        text = rng.choice(["1", "0.0", "'true'", "'no'", ".nan", "[true]"])
    elif isinstance(container[key], int):
        text = rng.choice([*_NONSENSE, "-1", "-3.5", "1e400"])
    else:
        text = rng.choice(_NONSENSE)
    container[key] = Raw(text)
    return Mutant(written(tree), f"{'.'.join(map(str, path))} = {text} (nonsense)", nonsense=True)


def _scribble(text: str, rng: random.Random) -> Mutant:
    """Characters of the text lost, doubled, swapped or struck by chance."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(max(1, len(text)))
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[at + rng.choice([1, 1, 3, 30]) :]
            case 1:
                text = (
                    text[:at]
                    + rng.choice([*"[]{}:,&*!?|>-'\"%@`#\t\n\0\x07\x85\ufeff\ud800", " : ", "- ", "\n\n"])
                    + text[at:]
                )
            case 2:
                end = at + rng.choice([1, 10, 100])
                text = text[:end] + text[at:end] + text[end:]
            case _:
                text = text[:at]
    return Mutant(text, "scribbled over", nonsense=False)
