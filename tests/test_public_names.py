"""Names of the package that no tool checks."""

import re
from collections import Counter
from pathlib import Path

import asyncfl

FILES = {path: path.read_text(encoding="utf-8") for path in Path(asyncfl.__file__).parent.rglob("*.py")}


def test_no_two_public_classes_share_a_name() -> None:
    names = Counter(name for text in FILES.values() for name in re.findall(r"^class ([A-Z]\w*)", text, re.M))
    assert [name for name, times in names.items() if times > 1] == []
