"""The commands of the program: their help, their grouping and their list in the documentation."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from asyncfl.cli import app
from docs.pages import command_page


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    if isinstance(command, TyperGroup):
        for below, inner in command.commands.items():
            yield from _commands(f"{name} {below}".strip(), inner)


COMMANDS = dict(list(_commands("", get_command(app)))[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_a_phrase_and_an_example(program: Any, name: str) -> None:
    status, out, err = program(*name.split(), "--help")
    assert (status, err) == (0, "")
    summary, *_ = COMMANDS[name].help.split("\n\n")
    assert re.fullmatch(r"[A-Z][a-z]+,? [^?]+\.", summary), "an imperative sentence"
    assert len(summary) <= 120
    assert f"Example: asyncfl {name}" in " ".join(out.split())


def test_commands_are_grouped_in_the_order_of_use(program: Any) -> None:
    out = program("--help")[1]
    headings = re.findall(r"─ (\w+) ─", out)
    assert headings == ["Options", "Run", "Look", "Measure", "Live", "Data", "Help"]
    shown = re.findall(r"^│ ([a-z]+)", out, flags=re.MULTILINE)
    assert sorted(shown) == sorted(name for name in COMMANDS if " " not in name)
    assert shown[:2] == ["init", "run"]


def test_the_command_list_of_the_documentation_holds_every_command() -> None:
    listed = re.findall(r"^\| `asyncfl ([\w ]+)` \| ([^|]+) \|$", command_page(), flags=re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(COMMANDS)
    assert all(summary.endswith(".") for _, summary in listed)
    assert re.findall(r"^## (\w+)$", command_page(), flags=re.MULTILINE) == [
        *("Run", "Look", "Measure", "Live", "Data", "Help")
    ]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            ["audit", "results/x"],
            "Type `asyncfl audit neighbours results/x`, or one of canaries, membership, reconstruct",
        ),
        (
            ["trace", "results/x", "--follow", "3"],
            "Type `asyncfl trace events results/x`, or one of follow, table, diff",
        ),
        (["audit", "canary", "results/x"], "did you mean `asyncfl audit canaries`?"),
        (["privacy", "epsilno"], "did you mean `asyncfl privacy epsilon`?"),
        (["tracee"], "did you mean `asyncfl trace`?"),
        (["simulate"], "`asyncfl --help` lists all commands"),
        (["live", "hree"], "hree"),
    ],
)
def test_a_wrong_command_is_answered_with_the_right_one(program: Any, words: list[str], advice: str) -> None:
    status, _, err = program(*words)
    assert status == 2
    assert advice in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("group", ["", *(name for name, one in COMMANDS.items() if isinstance(one, TyperGroup))])
def test_a_group_without_a_command_shows_its_commands(program: Any, group: str) -> None:
    out = "".join(program(*group.split())[1:])
    names = [name for name in COMMANDS if name.rpartition(" ")[0] == group]
    if group != "data":  # lists the data sets
        assert all(name.rpartition(" ")[2] in out for name in names)
