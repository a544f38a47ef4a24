"""Explanations as text and as JSON; their examples are scenarios."""

from typing import Any

import pytest

from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual.explanation import example_of, example_text, explained, facts, find
from asyncfl.manual.parts import Part, all_parts
from asyncfl.scenario import Scenario
from tests.manual.own_rule import Slowing

BASE = {"data": {"clients": 30}, "protocol": {"kind": "buffered", "rounds": 20}}


def _leaves(example: Any) -> list[Any]:
    return [leaf for one in example.values() for leaf in _leaves(one)] if isinstance(example, dict) else [example]


def _onto(base: Any, example: Any) -> Any:
    if isinstance(base, dict) and isinstance(example, dict) and "kind" not in example:
        return {**base, **{name: _onto(base.get(name), value) for name, value in example.items()}}
    return example


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: part.path or "scenario")
def test_the_example_of_a_part_is_a_scenario(part: Any) -> None:
    missing = part.path.startswith("data.dataset.") and part.kind != "scikit_learn"
    if missing or part.path in ("evaluation.metrics", "data.partition.by", "model.char_lstm") or "csv" in part.path:
        # Its files are the user's or to be downloaded, or (femnist by writer) take seconds to draw.
        assert _leaves(example_of(part))
        return
    Scenario.read(_onto(BASE, read_text(example_text(part))))


def test_an_example_holds_the_fields_it_needs() -> None:
    (zeno,) = find("zeno++")
    assert read_text(example_text(zeno)) == {"defence": {"detector": {"kind": "zeno++"}, "root_samples": 100}}
    (size,) = find("defence.rule.krum.pre.bucketing.size")
    assert example_of(size) == {"defence": {"rule": {"kind": "krum", "pre": [{"kind": "bucketing", "size": 2}]}}}


PART = Part(Slowing, "protocol.staleness", "protocol.buffered.staleness", "my_rules:Slowing")
SOURCE = "Somebody et al. 2020, section 4, equation 3"


def lines() -> list[str]:
    return [line.strip() for line in explained(PART, 80).splitlines()]


def test_explain_shows_the_facts_of_a_component() -> None:
    told = lines()
    assert told[0] == "protocol.buffered.staleness.my_rules:Slowing"
    assert {"Weights updates by their age and a wait.", "Use it where clients are slow."} <= set(told)
    assert {"s(tau) = 1 / (1 + tau)", f"source    {SOURCE}"} <= set(told)
    assert "class     tests.manual.own_rule.Slowing" in told
    assert any(line.startswith("logged") and "rounds.staleness_mean" in line for line in told)


def test_explain_shows_type_range_unit_and_default_of_each_field() -> None:
    told = lines()
    for name, about, words in (
        ("wait_s", "number; > 0, <= 1,000,000; s; must be given", "Time after which an update counts half"),
        ("clients", "whole number or null; >= 1; clients; default null", "Clients that count; null: all"),
        ("shape", "soft | hard; default soft", "Shape of the weight"),
    ):
        assert told[told.index(name) + 1 : told.index(name) + 3] == [about, words]


def test_the_example_can_be_pasted() -> None:
    yaml = explained(PART, 80).partition("Example\n")[2]
    rule = {"kind": "my_rules:Slowing", "wait_s": 2.5}
    assert read_text(yaml) == {"protocol": {"kind": "buffered", "rounds": 20, "staleness": rule}}


def test_explain_shows_the_parts_below_a_field() -> None:
    (depth,) = [field for field in PART.fields if field.name == "depth"]
    told = explained(depth, 80)
    assert told.startswith("protocol.buffered.staleness.my_rules:Slowing.depth\n\nA section within.\n")
    assert "  layers\n      whole number; >= 1; layers; default 2\n      Layers that are compared\n" in told


def test_json_has_the_same_facts() -> None:
    told = facts(PART)
    assert (told["source"], told["class"]) == (SOURCE, "tests.manual.own_rule.Slowing")
    assert [field["name"].rpartition(".")[2] for field in told["fields"]] == ["wait_s", "clients", "shape", "depth"]
    wait = told["fields"][0]
    assert [wait[key] for key in ("type", "unit", "range", "default")] == ["number", "s", "> 0, <= 1,000,000", ""]
