"""What is said of a folder that holds another run."""

from __future__ import annotations

from typing import Any

import pytest

from asyncfl.storage import _difference

THERE: dict[str, Any] = {"a": 1, "b": {"kind": "x", "c": 2, "d": 3}, "e": {"f": "g"}}


@pytest.mark.parametrize(
    ("here", "told"),
    [
        (THERE, " (its fields are the same; a profile, a component of your own or the format of runs has changed)"),
        ({**THERE, "a": 2}, " (a is 1 there and 2 here)"),
        ({"b": THERE["b"], "e": THERE["e"]}, " (a is 1 there and absent here)"),
        ({**THERE, "b": {"kind": "y", "h": 1}}, ' (b.kind is "x" there and "y" here)'),
        ({**THERE, "h": None}, " (h is absent there and null here)"),
        ({**THERE, "e": {"f": "g" * 38}}, f' (e.f is "g" there and "{"g" * 38}" here)'),
        ({**THERE, "e": {"f": "g" * 39}}, f' (e.f is "g" there and "{"g" * 26}...{"g" * 9}" here)'),
    ],
)
def test_the_fields_that_differ_are_told_with_both_values(here: dict[str, Any], told: str) -> None:
    assert _difference(THERE, here) == told
