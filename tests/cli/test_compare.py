"""In what scenarios differ, and how runs and values are called in tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncfl.cli.compare import _names, _said, differing


def test_fields_that_differ_in_any_scenario_stand_with_the_values_of_all() -> None:
    one = {"a": 1, "b": {"kind": "x", "c": 2}, "d": None}
    two = {"a": 1, "b": {"kind": "y", "e": [3]}, "d": None}
    three = {"a": 4, "b": {"kind": "x", "c": 2}}
    assert differing([one, two, three]) == {
        "a": [1, 1, 4],
        "b.kind": ["x", "y", "x"],
        "b.c": [2, None, 2],
        "d": [None, None, None],
        "b.e": [None, [3], None],
    }
    assert differing([one, one]) == {}


@pytest.mark.parametrize(
    ("runs", "names"),
    [(["r/one", "s/two"], ["one", "two"]), (["r/one", "s/one"], ["r/one", "s/one"]), (["r/../x"], ["x"])],
)
def test_runs_are_called_by_their_folders(runs: list[str], names: list[str]) -> None:
    assert _names(list(map(Path, runs))) == names


def test_values_are_told_in_forty_characters() -> None:
    assert [_said(one) for one in (None, 0.5, "text", [1, 2], {"a": None})] == [
        "—",
        "0.5",
        '"text"',
        "[1, 2]",
        '{"a": null}',
    ]
    assert _said("x" * 38) == f'"{"x" * 38}"'
    assert _said("x" * 39) == f'"{"x" * 26}...{"x" * 9}"'
