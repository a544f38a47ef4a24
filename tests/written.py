"""Numbers and words that calls come to, in lists that are written down, and how they are compared with new ones."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
Calls = Mapping[str, Callable[[], Any]]


def plain(value: Any) -> Any:
    """A value as JSON knows it; of an array of more than 12 numbers its shape and what tells one from another."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}") if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()] if value.size <= 12 else _digest(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    raise TypeError(f"{type(value)} has no words")


def _digest(values: Any) -> dict[str, Any]:
    """Shape, sum, sum of squares and a sum that knows the places."""
    flat = np.nan_to_num(values.astype(np.float64).ravel(), nan=0.5, posinf=7e5, neginf=-7e5)
    turned = flat * np.cos(np.arange(len(flat)))
    return {"shape": list(values.shape), "sums": [plain(float(one)) for one in (flat.sum(), flat @ flat, turned.sum())]}


def sums(table: Any) -> dict[str, Any]:
    """Of each column of a table the sum of its numbers, later rows counting more so that their order is seen, and how
    many are infinite; of words the number of each."""
    found: dict[str, Any] = {}
    for name, column in table.to_pandas().items():
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            words = Counter(column.dropna().astype(str))
            found |= {f"{name} {word}": number for word, number in sorted(words.items()) if word}
            continue
        values = column.to_numpy(dtype=float, na_value=np.nan)
        finite = float((values * (2 + np.arange(len(values)) % 5))[np.isfinite(values)].sum())
        infinite = int(np.isinf(values).sum())
        found |= {key: one for key, one in {name: finite, f"{name} infinite": infinite}.items() if one}
    return found


def outcome(call: Callable[[], Any]) -> Any:
    """What a call comes to, or what it refuses with."""
    try:
        return plain(call())
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def same(seen: Any, written: Any, where: str = "", rel: float = 1e-6) -> None:
    """That numbers differ by no more than `rel`, and all else by nothing."""
    if isinstance(written, dict):
        assert list(seen) == list(written), where
        for name, one in written.items():
            same(seen[name], one, f"{where}.{name}", rel)
    elif isinstance(written, list):
        assert len(seen) == len(written), where
        for number, one in enumerate(written):
            same(seen[number], one, f"{where}[{number}]", rel)
    elif isinstance(written, float) and not isinstance(seen, str):
        assert seen == pytest.approx(written, rel=rel, abs=1e-12), where
    elif isinstance(written, str) and isinstance(seen, str):
        _same_text(seen, written, where)
    else:
        assert seen == written, where


def _same_text(seen: str, written: str, where: str) -> None:
    """As `same`, of numbers in a text; the last digit that is told may be another, and so may the width of columns."""
    one, other = (re.split(NUMBER, " ".join(text.split())) for text in (seen, written))
    assert one[::2] == other[::2], f"{where}: {seen!r}, not {written!r}"
    for mine, its in zip(one[1::2], other[1::2], strict=True):
        digits, _, power = its.partition("e")
        last = 10.0 ** (int(power or 0) - len(digits.partition(".")[2])) if "." in its or power else 0.0
        large = 1e-3 * float(its) if float(its) >= 1e5 else 0.0
        close = abs(float(mine) - float(its)) <= max(1.01 * last, large)
        assert close, f"{where}: {seen!r}, not {written!r}"


@cache
def read(path: Path) -> Any:
    """The list that is written down in `path`."""
    return json.loads(path.read_text(encoding="utf-8"))


def compare(path: Path, name: str, call: Callable[[], Any], rel: float = 1e-6) -> None:
    """That a call comes to what is written down of it in `path`."""
    assert name in read(path), "it is not written down"
    same(json.loads(json.dumps(outcome(call))), read(path)[name], f"(if meant, write {path.name} anew) {name}", rel)


def write(path: Path, calls: Calls) -> None:
    """Write the list anew, as tests compute it."""
    os.environ["ASYNCFL_GEMM"] = "default"
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(outcome(call), ensure_ascii=False)}"
        for name, call in calls.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
