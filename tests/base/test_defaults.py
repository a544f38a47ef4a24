"""Names of runs by the fields that are not at their defaults, and the committed table of defaults.

python -m tests.base.test_defaults    # adds new fields and declared changes to the table
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from asyncfl.base.component import Component, Described, choice
from asyncfl.base.defaults import DefaultSince, changed_defaults, default_number, described_default, fields_apart
from asyncfl.base.description import _models_in
from asyncfl.scenario import Scenario

TABLE = Path(__file__).with_name("defaults.json")
"""Dotted class and field -> [number of its default, the default]. Fields that are gone stay in it."""


def models_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    """Return all models of this package that a model may hold, and their base classes."""
    found: set[type[BaseModel]] = set()
    todo = [model]
    while todo:
        cls = todo.pop()
        if cls not in found and issubclass(cls, Described):
            found.add(cls)
            todo += [below for field in cls.model_fields.values() for below in _models_in(field)]
            todo += [base for base in cls.__bases__ if issubclass(base, BaseModel)]
    return found


def defaults_of(model: type[BaseModel]) -> dict[str, list[Any]]:
    """Return the table of the defaults in a model and all models that it may hold."""
    return {
        f"{cls.__name__}.{name}": [default_number(cls.model_fields[name]), described_default(cls, name)]
        for cls in models_of(model)
        for name in cls.__annotations__
        if name in cls.model_fields and name != "kind" and not cls.model_fields[name].is_required()
    }


def faults(before: dict[str, list[Any]], now: dict[str, list[Any]]) -> list[str]:
    """Return a sentence for each default that changed without saying so, and for each field that is not listed."""
    found = []
    for name, (number, default) in sorted(now.items()):
        if name not in before:
            found.append(f"{name} is new: run `python -m tests.base.test_defaults`")
        elif (listed := before[name]) == [number, default] and json.dumps(listed) == json.dumps([number, default]):
            continue
        elif number > listed[0]:
            found.append(f"{name} has a new default: run `python -m tests.base.test_defaults`")
        else:
            found.append(
                f"{name} was {json.dumps(listed[1])} by default and is {json.dumps(default)}: annotate the field with "
                f"DefaultSince({listed[0] + 1}), so that no finished run is taken for one with the new default"
            )
    return found


def listed() -> dict[str, list[Any]]:
    table: dict[str, list[Any]] = json.loads(TABLE.read_text())
    return table


def test_a_default_that_changed_says_so():
    assert faults(listed(), defaults_of(Scenario)) == []


def test_all_classes_in_the_table_have_names_of_their_own():
    names = [cls.__name__ for cls in models_of(Scenario)]
    assert sorted(names) == sorted(set(names))


def test_no_field_holds_different_models_without_a_kind():
    for cls in models_of(Scenario):
        for name, field in cls.model_fields.items():
            held = [one for one in _models_in(field) if "kind" not in one.model_fields]
            assert len(held) <= 1, f"{cls.__name__}.{name}: a run would not be named by which of {held} it holds"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"A.x": [1, 0.1]}, {"A.x": [1, 0.1]}, ""),
        ({"A.x": [1, 0.1]}, {"A.x": [1, 0.2]}, "DefaultSince(2)"),
        ({"A.x": [1, 1]}, {"A.x": [1, 1.0]}, "DefaultSince(2)"),
        ({"A.x": [1, 1]}, {"A.x": [1, True]}, "DefaultSince(2)"),
        ({"A.x": [2, 0.1]}, {"A.x": [1, 0.1]}, "DefaultSince(3)"),
        ({"A.x": [1, 0.1]}, {"A.x": [2, 0.2]}, "has a new default: run"),
        ({"A.x": [1, 0.1]}, {"A.x": [2, 0.1]}, "has a new default: run"),
        ({}, {"A.x": [1, 0.1]}, "is new: run"),
        ({"A.gone": [1, 0.1]}, {}, ""),
    ],
)
def test_what_a_developer_is_told(before, now, said):
    found = faults(before, now)
    assert (said in found[0]) if said else not found


# --- the names of runs --------------------------------------------------------------------------------------------


class Shape(Component):
    """Base class."""


class Round(Shape):
    kind: Literal["round"] = "round"
    size: float = 1


class Square(Shape):
    kind: Literal["square"] = "square"
    side: float = 2.0


class Inner(Described):
    shape: choice(Shape, Round, Square) = Round()  # type: ignore[valid-type]
    shapes: tuple[choice(Shape, Round, Square), ...] = ()  # type: ignore[valid-type]


class Outer(Described):
    inner: Inner = Inner()
    count: int | float = 1
    names: dict[str, Inner] = Field(default_factory=dict)


for _class in (Round, Square, Inner, Outer):
    _class.__module__ = f"asyncfl.testing.{_class.__module__}"  # of a user's own class all fields count


@pytest.mark.parametrize(
    ("given", "apart"),
    [
        ({}, {}),
        ({"inner": {"shape": {"kind": "round"}}}, {}),
        ({"inner": {"shape": {"kind": "round", "size": 1}}, "count": 1}, {}),
        ({"count": 1.0}, {"count": 1.0}),
        ({"inner": {"shape": {"kind": "round", "size": 3}}}, {"inner": {"shape": {"kind": "round", "size": 3.0}}}),
        ({"inner": {"shape": {"kind": "square"}}}, {"inner": {"shape": {"kind": "square"}}}),
        ({"inner": {"shapes": [{"kind": "round"}]}}, {"inner": {"shapes": [{"kind": "round"}]}}),
        (
            {"names": {"b": {}, "a": {"shape": {"kind": "square"}}}},
            {"names": {"b": {}, "a": {"shape": {"kind": "square"}}}},
        ),
    ],
)
def test_fields_at_their_defaults_are_left_out(given, apart):
    assert json.dumps(fields_apart(Outer.model_validate(given))) == json.dumps(apart)


def test_fields_of_a_users_own_class_are_all_kept():
    class Mine(Shape):
        kind: str = "mine:Mine"
        size: float = 1.0

    held = Outer(inner=Inner(shape=Mine()))
    assert fields_apart(held) == {"inner": {"shape": {"kind": "mine:Mine", "size": 1.0}}}


def test_further_arguments_of_a_users_function_are_kept():
    class Called(Described):
        __module__ = "asyncfl.learning.metrics"
        model_config = ConfigDict(extra="allow")

        kind: str

    held = Called.model_validate({"kind": "mine:first", "k": 3})
    assert fields_apart(held) == {"kind": "mine:first", "k": 3}
    assert changed_defaults(held) == {}


def test_a_default_with_a_number_is_told_wherever_a_description_rests_on_it():
    class Newer(Shape):
        kind: Literal["newer"] = "newer"
        size: Annotated[float, Field(gt=0), DefaultSince(3)] = 2.0

    class Holder(Described):
        one: choice(Shape, Newer) = Newer()  # type: ignore[valid-type]
        many: tuple[choice(Shape, Newer), ...] = ()  # type: ignore[valid-type]
        limit: Annotated[int | None, DefaultSince(2)] = None

    assert changed_defaults(Holder()) == {"one.size": 3, "limit": 2}
    two = [{"kind": "newer", "size": 1.0}, {"kind": "newer", "size": 2}]
    held = Holder.model_validate({"one": {"kind": "newer", "size": 5.0}, "many": two, "limit": 1})
    assert changed_defaults(held) == {"many.1.size": 3}


if __name__ == "__main__":
    table = listed() if TABLE.exists() else {}
    now = defaults_of(Scenario)
    if told := [one for one in faults(table, now) if "DefaultSince" in one]:
        sys.exit("\n".join(told))
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted({**table, **now}.items())]
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
