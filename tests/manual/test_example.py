"""Examples are scenarios."""

from typing import Any

import pytest

from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual.lookup import find
from asyncfl.manual.parts import all_parts
from asyncfl.manual.text import example_of, example_text, setting
from asyncfl.scenario import Scenario

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


def test_the_command_sets_what_the_example_says() -> None:
    (field,) = find("training.lr")
    assert setting(field) == ["asyncfl run scenario.yaml \\", "  --set training.lr=0.01"]
    (listed,) = find("defence.rule.krum.pre")
    assert setting(listed) is None
