"""How the package is built, where no tool checks it: names of classes, sizes of files and constructors."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import asyncfl

FILES = {path: path.read_text(encoding="utf-8") for path in Path(asyncfl.__file__).parent.rglob("*.py")}


def test_no_two_public_classes_share_a_name() -> None:
    names = Counter(name for text in FILES.values() for name in re.findall(r"^class ([A-Z]\w*)", text, re.M))
    assert [name for name, times in names.items() if times > 1] == []


def test_files_are_short_enough_to_be_read() -> None:
    assert [path for path, text in FILES.items() if text.count("\n") > 400] == []


def test_no_constructor_takes_nine_arguments() -> None:
    taken = {
        path: len(one.args.args + one.args.kwonlyargs) - 1
        for path, text in FILES.items()
        if "def __init__(" in text
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    }
    assert len(taken) > 50
    assert {path: number for path, number in taken.items() if number >= 9} == {}
