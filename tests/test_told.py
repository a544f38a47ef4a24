"""What components say of themselves has the type that is declared, and is what stands in a written list.

`python tests/test_told.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

import asyncfl
from asyncfl.component import Component, default_property

PLAIN = (bool, int, float, str)
LIST = Path(__file__).with_name("told.txt")


def _components() -> Iterator[Component]:
    """One of each public kind that needs no field, or few."""
    for found in pkgutil.walk_packages(asyncfl.__path__, "asyncfl."):
        if found.name.endswith("__main__"):
            continue
        for _, kind in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if kind.__module__ == found.name and issubclass(kind, Component) and not inspect.isabstract(kind):
                for given in GIVEN:
                    try:
                        yield kind.model_validate(given)
                        break
                    except ValidationError:
                        continue


GIVEN: tuple[dict[str, Any], ...] = (
    {},
    {"rounds": 5},
    {"epsilon": 6.0},
    {"rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    {"noise_multiplier": 0.5, "clip_norm": 0.5},
    {"participants": 3},
    {"in_flight": 3},
    {"share": 0.5},
    {"seconds": 2.0},
    {"hidden": [8]},
    {"alpha": 0.5},
    {"groups": 2},
    {"probability": 0.1},
    {"good_to_bad": 0.1, "bad_to_good": 0.3},
    {"on_s": 3.0, "off_s": 2.0},
    {"mean": 2.0},
    {"value": 2.0},
    {"low": 1.0, "high": 2.0},
    {"median": 1.0, "sigma": 0.5},
    {"minimum": 1.0, "alpha": 2.0},
    {"minimum_s_per_sample": 1.0, "alpha": 2.0},
    {"mean_s_per_sample": 2.0},
    {"median_s_per_sample": 2.0, "sigma": 0.1},
    {"low_s_per_sample": 1.0, "high_s_per_sample": 2.0},
    {"attack": {"kind": "sign_flip"}},
    {"attacks": [{"kind": "sign_flip"}, {"kind": "label_flip"}]},
    {"budgets": [5.0, 10.0]},
    {"client": {"kind": "gaussian", "epsilon": 5.0}},
)
COMPONENTS = list(_components())


def _told(component: Component) -> Iterator[tuple[str, Any, Any]]:
    """Name, declared type and value of each plain property."""
    for name, found in inspect.getmembers(type(component)):
        if name.startswith(("_", "model_")) or not isinstance(found, property | cached_property | default_property):
            continue
        getter = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "_value_of", None)
        if getter is not None and (declared := get_type_hints(getter).get("return")) in PLAIN:
            try:
                yield name, declared, getattr(component, name)
            except NotImplementedError:  # what a base class leaves to others
                continue


def test_there_are_components_of_all_sorts() -> None:
    assert len({type(one) for one in COMPONENTS}) > 60


def _lines() -> Iterator[str]:
    for component in COMPONENTS:
        called = type(component).__name__
        yield from (f"{called}.{name} = {value!r}" for name, _, value in _told(component))


def test_what_components_say_of_themselves_is_what_is_written_down() -> None:
    there = set(_lines())
    changed = [one for one in LIST.read_text(encoding="utf-8").splitlines() if one not in there]
    assert changed == [], "if this is meant: python tests/test_told.py"


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda one: f"{type(one).__module__}.{type(one).__name__}")
def test_properties_have_the_types_that_they_declare(component: Component) -> None:
    for name, declared, value in _told(component):
        assert type(value) is declared or (declared is float and type(value) is int), f"{name} is {value!r}"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
