import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field, ValidationError

from asyncfl.base.component import Component, Described, choice, default_property


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
def test_classes_that_are_no_components_are_refused(module: str, value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Drawing(shape=value)


def test_the_schema_offers_each_kind_and_an_import_path() -> None:
    branches = Drawing.model_json_schema()["properties"]["shape"]["anyOf"]
    assert len(branches) == 3
    assert branches[-1]["properties"]["kind"]["pattern"] == r"^\w+(\.\w+)*:\w+$"


def test_an_object_that_is_made_already_is_taken_as_it_is() -> None:
    mine = Mine(kind="elsewhere", corners=4)
    assert Drawing(shape=mine).shape is mine
    assert Drawing(shape=mine).model_dump(mode="json") == {"shape": {"kind": "elsewhere", "corners": 4}}


class Numbers(Described):
    whole: int = 0
    real: float = 0.0
    one: Literal[1, 2] = 1
    truth: bool = False


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 1e3, 0])
def test_a_whole_number_has_64_bits(value: float) -> None:
    assert Numbers(whole=value).whole == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("whole", -(2**63) - 1, "must be a whole number of at most 64 bits"),
        ("whole", 2**63, "must be a whole number of at most 64 bits"),
        ("whole", True, "Input should be a valid integer"),
        ("whole", "3", "Input should be a valid integer"),
        ("whole", b"3", "Input should be a valid integer"),
        ("whole", 1.5, "Input should be a valid integer"),
        ("real", True, "Input should be a valid number"),
        ("real", "1.0", "Input should be a valid number"),
        ("real", float("nan"), "must be a number"),
        ("one", True, "Input should be a valid integer"),
        ("one", 3, "Input should be 1 or 2"),
        ("truth", 1, "Input should be a valid boolean"),
        ("truth", "yes", "Input should be a valid boolean"),
    ],
)
def test_numbers_truth_values_and_texts_are_never_read_out_of_each_other(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Numbers(**{field: value})


def test_numbers_inside_of_lists_mappings_sections_and_choices_are_read_as_exactly() -> None:
    class Part(Described):
        whole: int = 0

    class Whole(Described):
        pair: tuple[int, bool] = (0, False)
        part: Part = Part()
        parts: Mapping[str, Part] = Field(default_factory=dict)
        any_of: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
        sort: choice(Shape, Round, Square) = Round()

    sound = Whole(pair=[1e3, True], part={"whole": 3}, parts={"a": {"whole": 1}}, any_of=3)
    assert (sound.pair, sound.part, sound.parts, sound.any_of) == ((1000, True), Part(whole=3), {"a": Part(whole=1)}, 3)
    for wrong in (
        {"pair": ["1", True]},
        {"pair": [1, 1]},
        {"part": {"whole": True}},
        {"parts": {"a": {"whole": "1"}}},
        {"any_of": True},
        {"sort": {"kind": "round", "radius": "1"}},
    ):
        with pytest.raises(ValidationError) as caught:
            Whole.model_validate(wrong)
        assert caught.value.errors()[0]["loc"][0] == next(iter(wrong))


def test_infinities_survive_and_defaults_are_checked_too() -> None:
    far = Numbers(real=float("-inf"))
    assert far.model_dump_json() == '{"whole":0,"real":-Infinity,"one":1,"truth":false}'
    assert Numbers.model_validate_json(far.model_dump_json()) == far
    assert Numbers(real=3).real == 3.0

    class Wrong(Described):
        count: int = "many"  # type: ignore[assignment]

    with pytest.raises(ValidationError, match="valid integer"):
        Wrong()


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
