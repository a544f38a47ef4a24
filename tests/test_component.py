from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import ConfigDict, ValidationError

from asyncfl.component import Component, Described, choice, default_property


class Shape(Component):
    pass


class Round(Shape):
    kind: Literal["round"] = "round"
    radius: float = 1.0


class Square(Shape):
    kind: Literal["square"] = "square"


class Mine(Shape):
    kind: str
    corners: int = 3


class Drawing(Described):
    shape: choice(Shape, Round, Square) = Round()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    own = ModuleType("own_shapes")
    own.Mine = Mine  # type: ignore[attr-defined]
    own.Other = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_shapes", own)
    return "own_shapes"


def test_a_kind_names_the_class() -> None:
    assert Drawing(shape={"kind": "square"}).shape == Square()
    assert Drawing.model_validate({"shape": {"kind": "round", "radius": 2}}).shape == Round(radius=2)
    assert Drawing(shape=Square()).shape == Square()


def test_an_import_path_names_a_class_of_ones_own_and_survives_a_round_trip(module: str) -> None:
    drawing = Drawing(shape={"kind": f"{module}:Mine", "corners": 5})
    assert drawing.shape == Mine(kind="own_shapes:Mine", corners=5)
    plain = drawing.model_dump(mode="json")
    assert plain == {"shape": {"kind": "own_shapes:Mine", "corners": 5}}
    assert Drawing.model_validate(plain) == drawing


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "triangle"}, "'triangle'"),
        ({"kind": "no_such_module:Mine"}, "cannot import 'no_such_module': .*; name its folder in PYTHONPATH"),
        ({"kind": "own_shapes:Yours"}, "has no 'Yours'"),
        ({"kind": "own_shapes:Other"}, "must be a class derived from Shape"),
        ({"kind": "round", "corners": 3}, "corners"),
    ],
)
def test_what_is_no_component_is_refused(module: str, value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Drawing(shape=value)


def test_the_schema_offers_each_kind_and_an_import_path() -> None:
    branches = Drawing.model_json_schema()["properties"]["shape"]["oneOf"]
    assert len(branches) == 3
    assert branches[-1]["properties"]["kind"]["pattern"] == r"^\w+(\.\w+)*:\w+$"


def test_a_description_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Drawing().shape = Square()  # type: ignore[misc]


class Box(Component):
    model_config = ConfigDict(ignored_types=(default_property,))
    kind: str = "box"

    @default_property
    def depth(self) -> int:
        """Three."""
        return 3


def test_a_default_property_makes_way_for_a_field_and_for_a_property() -> None:
    class Chosen(Box):
        depth: int = 5

    class Computed(Box):
        edge: int = 2

        @property
        def depth(self) -> int:
            return 2 * self.edge

    assert [Box().depth, Chosen().depth, Chosen(depth=7).depth, Computed(edge=4).depth] == [3, 5, 7, 8]
    assert (Box().model_dump(), Chosen().model_dump()) == ({"kind": "box"}, {"kind": "box", "depth": 5})
    with pytest.raises(ValidationError, match="depth"):
        Box(depth=4)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="depth"):
        Box.depth  # noqa: B018
