"""What the README and the docs promise is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_of_the_readme_runs_and_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = [
        line.split() for line in re.findall(r"^     ?(.*)$", README[README.index("```\n\n     version") :], flags=re.M)
    ]
    # Losses differ in their last digits between processors; the clock and what became of each task do not.
    assert [row[:2] for row in printed[:-1]] == [row[:2] for row in shown[: len(printed) - 1]]
    assert printed[-1] == shown[len(printed) - 1]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:asyncfl|workflow|benchmarks|docs|tests)/[\w/.]*)`", text))
    named |= set(re.findall(r"\]\((docs/[\w/.]+)\)", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_glossary_names_fields_and_code_that_exist() -> None:
    rows = re.findall(r"^\|(.+)\|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), flags=re.M)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    code = [name for row in cells for name in re.findall(r"`([\w.]+)`", row[3])]
    home, missing = "", []
    for name in code:
        # A bare name stands in the module of the one before it.
        full = name if "." in name else f"{home}.{name}"
        home = full.rpartition(".")[0]
        if not _exists(full):
            missing.append(full)
    assert len(code) > 30
    assert missing == []


def _exists(name: str) -> bool:
    """Whether `package.module.Class.attribute`, below asyncfl, can be imported."""
    found: object = import_module("asyncfl")
    path = "asyncfl"
    for part in name.split("."):
        path = f"{path}.{part}"
        try:
            found = import_module(path)
        except ImportError:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
    return True
