from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.description import override, read_yaml
from asyncfl.errors import ScenarioError


def test_numbers_in_scientific_notation_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("{a: 1e-5, b: 10e6, c: -2E3, d: .inf, e: 1e5x, f: 0.5}")
    assert read_yaml(file) == {"a": 1e-5, "b": 10e6, "c": -2000.0, "d": float("inf"), "e": "1e5x", "f": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [1, 2", "is no YAML in line 1"),
        (b"a: 1\nb: 2\na: 3", "in line 3: field 'a' stands twice"),
        (b"a: \xff\xfe", "is not a text file in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(text)
    with pytest.raises(ScenarioError, match=message) as caught:
        read_yaml(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nothing\.yaml: cannot be read: No such file"):
        read_yaml(tmp_path / "nothing.yaml")


def test_dotted_names_reach_into_mappings() -> None:
    description = {"a": {"b": 1, "c": 2}, "d": None}
    override(description, {"a.b": 5, "d.e.f": 6})
    assert description == {"a": {"b": 5, "c": 2}, "d": {"e": {"f": 6}}}


@given(st.permutations(["p.kind", "p.x", "p.q.y"]))
def test_another_kind_starts_afresh_whatever_the_order(names: list[str]) -> None:
    description = {"p": {"kind": "old", "left": 1, "q": {"z": 1}}}
    values = {"p.kind": "new", "p.x": 2, "p.q.y": 3}
    override(description, {name: values[name] for name in names})
    assert description == {"p": {"kind": "new", "x": 2, "q": {"y": 3}}}


def test_the_same_kind_keeps_its_fields() -> None:
    description = {"p": {"kind": "old", "left": 1}}
    override(description, {"p.kind": "old"})
    assert description == {"p": {"kind": "old", "left": 1}}
