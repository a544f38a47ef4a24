"""Annotations in words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from asyncfl.component import Described
from asyncfl.defences.krum import Krum
from asyncfl.manual.words import (
    as_written,
    default_words,
    is_number,
    own_base,
    range_words,
    type_of_field,
    unit_of_field,
)  # fmt: skip
from asyncfl.quantities import MeasuredIn
from asyncfl.world.distributions import Fixed, Uniform
from asyncfl.world.links import Link


class Example(Described):
    count: Annotated[int, Field(ge=1, le=10_000_000), MeasuredIn("clients")] = 3
    number_or_null: Annotated[float, Field(gt=0)] | None = None
    word_or_number: Literal["auto"] | Annotated[int, Field(ge=0)] = "auto"
    count_or_share: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)]
    listed: tuple[Annotated[int, Field(ge=0)], ...] = (1, 2)
    pair: tuple[int, int] | None = None
    wait_s: float = 1e7
    factor: Annotated[float, MeasuredIn("1")] = float("inf")
    switch: bool = True


@pytest.mark.parametrize(
    ("name", "type_", "range_", "default", "unit"),
    [
        ("count", "whole number", ">= 1, <= 10,000,000", "3", "clients"),
        ("number_or_null", "number or null", "> 0", "null", ""),
        ("word_or_number", "auto or whole number", ">= 0", "auto", ""),
        ("count_or_share", "whole number or number", "whole number >= 1; number > 0, < 1", "", ""),
        ("listed", "list of whole numbers", ">= 0", "[1, 2]", ""),
        ("pair", "list of 2: whole number, whole number or null", "", "null", ""),
        ("wait_s", "number", "", "10e6", "s"),
        ("factor", "number", "", ".inf", "1"),
        ("switch", "true or false", "", "true", ""),
    ],
)
def test_a_field_in_words(name: str, type_: str, range_: str, default: str, unit: str) -> None:
    field = Example.model_fields[name]
    assert type_of_field(field) == type_
    assert range_words(field) == range_
    assert default_words(field) == default
    assert unit_of_field(name, field) == unit


def test_a_choice_names_its_kinds_and_that_there_may_be_others() -> None:
    latency = Link.model_fields["latency_s"]
    kinds = "kind fixed, uniform, exponential, lognormal, pareto, listed, my_module:MyClass"
    assert type_of_field(latency) == f"number or list of numbers or {kinds}"
    assert unit_of_field("latency_s", latency) == "s"
    assert default_words(latency) == "0"


def test_a_component_is_written_with_what_differs_from_its_defaults() -> None:
    assert as_written(Krum()) == "{kind: krum}"
    assert as_written(Krum(byzantine=2)) == "{kind: krum, byzantine: 2}"


def test_the_unit_stands_in_the_schema() -> None:
    assert Example.model_json_schema()["properties"]["count"]["unit"] == "clients"


class More(Described):
    named: dict[str, float] = Field(default_factory=dict)
    switches: tuple[bool, ...] = ()
    nested: tuple[tuple[float, ...], ...] = ()
    whatever: Any = None
    small: Annotated[float, Field(gt=0.25, lt=2)] = 0.5
    exact: Annotated[int, Field(ge=-3)] = 0
    energy_w: float = 0.1
    speed_s_per_sample: float = 1.0
    falls_per_s: float = 1.0
    hours_h: float = 1.0
    link_bps: float = 1.0
    size_bytes: int = 1
    bytes: int = 1
    is_s: str = ""


@pytest.mark.parametrize(
    ("name", "type_", "range_", "unit"),
    [
        ("named", "mapping of names to numbers", "", ""),
        ("switches", "list of true or false", "", ""),
        ("nested", "list of list of numbers", "", ""),
        ("whatever", "anything", "", ""),
        ("small", "number", "> 0.25, < 2", ""),
        ("exact", "whole number", ">= -3", ""),
        ("energy_w", "number", "", "W"),
        ("speed_s_per_sample", "number", "", "s per sample"),
        ("falls_per_s", "number", "", "1/s"),
        ("hours_h", "number", "", "h"),
        ("link_bps", "number", "", "bit/s"),
        ("size_bytes", "whole number", "", "bytes"),
        ("bytes", "whole number", "", "bytes"),
    ],
)
def test_a_field_of_another_kind_in_words(name: str, type_: str, range_: str, unit: str) -> None:
    field = More.model_fields[name]
    assert (type_of_field(field), range_words(field), unit_of_field(name, field)) == (type_, range_, unit)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1_000_000, "1000000"),
        (1e6, "1e6"),
        (2.5e6, "2.5e+06"),
        (999_999.0, "999999"),
        (3e6, "3e6"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1234567.5, "1234567.5"),
        (float("-inf"), "-.inf"),
        ((1, 0.5, "a"), "[1, 0.5, a]"),
        ({"a": [None], "b": {"c": False}}, "{a: [null], b: {c: false}}"),
        (More(), "its own defaults"),
        (More(named={"x": 1.0}, exact=2), "{named: {x: 1}, exact: 2}"),
        (Fixed(value=2.0), "2"),
        (Uniform(low=1.0, high=2.0), "{kind: uniform, low: 1, high: 2}"),
    ],
)
def test_values_as_they_are_written_in_a_line(value: Any, said: str) -> None:
    assert as_written(value) == said


def test_fields_of_numbers_are_told_from_others() -> None:
    numbers = [name for name, field in More.model_fields.items() if is_number(field)]
    assert numbers == [name for name in More.model_fields if name not in ("switches", "whatever", "is_s")]
    assert not is_number(Link.model_fields["latency_s"])
    assert own_base(More.model_fields["named"]) is None
    assert own_base(Link.model_fields["latency_s"]) is not None


class Held(Described):
    alone: Krum = Krum()
    several: tuple[Krum, ...] = ()
    sections: tuple[Link, ...] = ()
    offered: tuple[Krum | Uniform, ...] = ()


def test_components_and_sections_in_words() -> None:
    said = {name: type_of_field(field) for name, field in Held.model_fields.items()}
    assert said == {
        "alone": "mapping",
        "several": "list of components",
        "sections": "list of mapping",
        "offered": "list of components of kind krum, uniform",
    }
    assert as_written(Fixed(value=0.5)) == "0.5"
