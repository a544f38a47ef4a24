"""How columns, axes and values are worded, and how lines look, against a written list.

`python tests/analysis/test_wording.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.colors import to_hex

from asyncfl.analysis.columns import measured_columns, unit_of
from asyncfl.analysis.grid import describe, several
from asyncfl.analysis.labels import AXES, axis_label, column_label, end_label, legend_label, value_label
from asyncfl.analysis.style import looks
from asyncfl.analysis.tables import plain

LIST = Path(__file__).with_name("wording.txt")
NAMED = ("time_to_70", "bytes_to_5", "rounds_to_converge", "test_accuracy_usps", "detector_rank", "own_column")
VALUES: list[Any] = [
    *(1, 1.0, 0.25, 1e-6, math.inf, -math.inf, True, None, "krum", "100", "1e-3", "L = 1", ""),
    {"kind": "share", "share": 0.5},
    {"a": 1, "b": 2},
    [1, 2],
]
HUES: list[list[Any]] = [
    [1],
    [1, 2],
    [1, 2, 3],
    [0.5, 1.5, math.inf],
    ["a", "b"],
    list("abcdefghij"),
    list(range(12)),
    [True, False, 3],
]


def _style(look: dict[str, Any]) -> dict[str, Any]:
    return {key: to_hex(value) if key == "color" else value for key, value in look.items()}


def _lines() -> Iterator[str]:
    columns = {**measured_columns("rounds", ["mnist", "usps"]), **measured_columns("ends", targets=NAMED[:3])}
    for name in (*columns, *NAMED):
        yield json.dumps([name, column_label(name), end_label(name), unit_of(name)], ensure_ascii=False)
    for axis in (*AXES, "world.device.spread", "speed", "L"):
        yield json.dumps([axis, axis_label(axis), axis_label(axis, plain_text=True)], ensure_ascii=False)
    for axis in ("privacy.epsilon", "L", "data.clients", "defence.rule"):
        for value in VALUES:
            said = [value_label(value, axis), legend_label(axis, value), describe({axis: value}), str(plain(value))]
            yield json.dumps([axis, repr(value), *said, len(several(value))], ensure_ascii=False)
    for hues in HUES:
        yield json.dumps([[repr(hue), _style(look)] for hue, look in looks(hues).items()])


def test_words_are_those_written_down() -> None:
    there = set(_lines())
    changed = [one for one in LIST.read_text(encoding="utf-8").splitlines() if one not in there]
    assert changed == [], "if this is meant: python tests/analysis/test_wording.py"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
