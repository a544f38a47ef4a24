"""Annotations in words."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field

from asyncfl.component import Described
from asyncfl.defences.krum import Krum
from asyncfl.manual.words import (
    as_written,
    default_words,
    range_words,
    type_of_field,
    unit_of_field,
)  # fmt: skip
from asyncfl.quantities import MeasuredIn
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
    speed_s_per_sample: float = 1.0
    falls_per_s: float = 1.0
    link_bps: float = 1.0
    size_bytes: int = 1


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
        ("speed_s_per_sample", "number", "", "1", "s per sample"),
        ("falls_per_s", "number", "", "1", "1/s"),
        ("link_bps", "number", "", "1", "bit/s"),
        ("size_bytes", "whole number", "", "1", "bytes"),
    ],
)
def test_a_field_in_words(name: str, type_: str, range_: str, default: str, unit: str) -> None:
    field = Example.model_fields[name]
    assert type_of_field(field) == type_
    assert range_words(field) == range_
    assert default_words(field) == default
    assert unit_of_field(name, field) == unit


def test_a_choice_names_its_kinds_and_a_users_class() -> None:
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
