"""Scenarios to start from."""

import re
from pathlib import Path

import pytest

from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual.parts import all_parts
from asyncfl.manual.starter import OWN_DATA, STARTERS, starter
from asyncfl.scenario import Scenario

pytestmark = pytest.mark.usefixtures("no_own_module_stays")


@pytest.mark.parametrize("kind", STARTERS)
def test_a_starter_says_what_it_sets_and_nothing_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_data.py").write_text(OWN_DATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    says, fields = STARTERS[kind]
    text = starter(kind, "s.yaml")
    assert read_text(text) == fields
    assert says.split(".")[0][:40] in text
    assert max(map(len, text.splitlines())) <= 110
    assert Scenario.read(fields).estimated_cost() < 30


@pytest.mark.parametrize("kind", ["sync", "buffered", "dp", "attack"])
def test_every_line_behind_a_mark_is_the_default(kind: str) -> None:
    text = starter(kind, "s.yaml")
    switched_on = re.sub(r"^( *)# (\w+: \S.*)$", _unless_prose, text, flags=re.M)
    assert switched_on != text
    assert Scenario.read(read_text(switched_on)) == Scenario.read(read_text(text))


def _unless_prose(line: re.Match[str]) -> str:
    """A line of YAML behind a mark without it; sentences that begin with a word and a colon stay comments."""
    field = line[2].partition(":")[0]
    return f"{line[1]}{line[2]}" if field in NAMES else line[0]


NAMES = {field.name for part in all_parts() for field in part.fields if len(field.name) > 1}
"""Symbols of papers, with which sentences begin, are single letters."""
