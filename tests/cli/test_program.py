"""The program as a whole: its version, commands and their help, its log, its errors and how it ends."""

import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from asyncfl.base.errors import RunError
from asyncfl.cli import app, main, move_verbose_first
from docs.pages import command_page


def test_the_version(program: Any) -> None:
    assert program("--version") == (0, f"asyncfl {version('asyncfl')}\n", "")


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    """Where a script of the environment is not on the path."""
    asked = [sys.executable, "-m", "asyncfl", "--version"]
    assert subprocess.run(asked, cwd=tmp_path, capture_output=True, check=True).stdout.decode().startswith("asyncfl ")


@pytest.mark.parametrize(
    ("raised", "status", "message"),
    [(KeyboardInterrupt(), 130, ""), (RunError("no run"), 2, "asyncfl: no run\n"), (BrokenPipeError(), 0, "")],
)
def test_errors_end_the_program_without_a_traceback(
    raised: BaseException, status: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr("asyncfl.cli.app", mock.Mock(side_effect=raised))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == status
    assert errors.closed == isinstance(raised, BrokenPipeError)
    assert errors.closed or errors.getvalue() == message


@pytest.mark.parametrize("command", ["--help", "explain", "explain protocol"])
def test_a_reader_that_ends_early_is_no_failure(command: str) -> None:
    """As in `asyncfl explain | head -1`."""
    code = "from asyncfl.cli import main; main()"
    asked = subprocess.Popen(
        [sys.executable, "-c", code, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert asked.stdout is not None
    asked.stdout.close()
    _, told = asked.communicate()
    assert (asked.returncode, told) == (0, b"")


@pytest.mark.parametrize("option", ["--version", "--client", "--task", "--seed", "--limit"])
def test_numbers_beyond_64_bits_are_refused(program: Any, tmp_path: Path, option: str) -> None:
    for number, limit in (
        ("9" * 400, "must be at most 9223372036854775807"),
        ("-" + "9" * 19, f"Invalid value for '{option}'"),
    ):
        status, _, err = program("trace", "events", tmp_path, option, number)
        assert (status, limit in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("run", "scenario.yaml"), "--max-hours"),
        (("run", "scenario.yaml"), "--max-gib"),
        (("live", "here", "scenario.yaml"), "--speedup"),
        (("trace", "events", "run"), "--since"),
        (("view", "run"), "--until"),
    ],
)
def test_nan_is_no_limit(refused: Any, command: tuple[str, ...], option: str) -> None:
    assert f"Invalid value for '{option}': must be a number, got nan" in refused(*command, option, "nan")


@pytest.mark.parametrize(
    ("printing", "told"),
    [
        (r"from asyncfl.cli.output import console; console.print('\u2014')", b"?"),
        (r"from asyncfl.cli.output import print_json; print_json('\u2014')", rb'"\u2014"'),
    ],
)
def test_a_terminal_without_unicode_is_no_failure(printing: str, told: bytes) -> None:
    code = f"import asyncfl.cli as program; program.app = lambda args: exec({printing!r}); program.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    asked = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert asked.stdout.strip() == told


FAILING = """
from asyncfl.defences import Rule


class Halving(Rule):
    kind: str
    ends: bool = False

    def aggregate(self, updates, weights):
        if self.ends:
            raise SystemExit
        return self._half(updates)

    def _half(self, updates):
        return updates.mean(axis=0) / {}["half"]
"""


def test_an_error_in_an_own_component_names_its_line(program: Any, file: Path) -> None:
    rule = file.with_name("halving.py")
    rule.write_text(FAILING)
    command = ("run", file, "--set", "defence.rule={kind: halving:Halving}", "--out", file.with_name("out"))
    status, _, err = program(*command)
    assert status == 1
    first, second = err.splitlines()
    assert first == f"asyncfl: halving:Halving.aggregate failed: {rule}, line 15: KeyError: 'half'"
    assert second.startswith("  asyncfl --traceback run ")
    assert second.endswith(" shows the whole traceback")
    status, _, err = program("--traceback", *command)
    assert status == 1
    assert err.startswith("Traceback (most recent call last)")
    assert "in _half" in err
    assert err.splitlines()[-1] == first
    assert not file.with_name("out").exists()
    status, _, err = program(*command, "--set", "defence.rule.ends=true")
    assert status == 1
    assert "line 11: it ends the program" in err


@pytest.fixture(autouse=True)
def restore_log() -> Iterator[None]:
    log = logging.getLogger("asyncfl")
    before = log.level, log.handlers
    yield
    log.setLevel(before[0])
    log.handlers = before[1]


@pytest.fixture
def logged(program: Any, file: Path, capsys: Any) -> Any:
    """Runs the scenario with options; returns the logged lines without their times."""

    def call(*options: str) -> list[str]:
        status, _, err = program("run", file, "--out", "run", "--quiet", "--set", "seeds=[3, 4]", *options)
        assert status == 0
        return [line.partition(" ")[2] for line in err.splitlines()]

    return call


def test_once_logs_the_steps_of_a_run(logged: Any) -> None:
    assert logged() == []
    Path("run").rename("quiet")
    begun, ended, *_, written = logged("-v")
    assert "seed 3: 5 clients hold 100 samples of " in begun
    assert "trains 6370 parameters" in begun
    assert "seed 3: all versions published after 3 versions, 15 tasks trained" in ended
    assert written == "asyncfl.api: run written"
    assert logged("-v") == ["asyncfl.api: run holds the run already"]


def test_twice_logs_each_version(logged: Any) -> None:
    versions = [line for line in logged("-vv") if ": seed 4: version " in line]
    assert len(versions) == 4
    assert ": seed 4: version 0 at 0 s of 0 updates, train loss 2." in versions[0]


def test_verbose_may_stand_anywhere_on_the_command_line(program: Any) -> None:
    assert move_verbose_first(["run", "a.yaml", "-v", "--quiet"]) == ["-v", "run", "a.yaml", "--quiet"]
    assert move_verbose_first(["run", "-vv", "--", "-v"]) == ["-vv", "run", "--", "-v"]
    assert program("schema", "--verbose")[0] == 0
    assert logging.getLogger("asyncfl").level == logging.INFO


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
    ("words", "near"),
    [(["audit", "canary", "results/x"], "canaries"), (["privacy", "epsilno"], "epsilon"), (["tracee"], "trace")],
)
def test_a_wrong_command_is_answered_with_the_nearest(refused: Any, words: list[str], near: str) -> None:
    assert f"Did you mean '{near}'" in refused(*words)


@pytest.mark.parametrize("group", ["", *(name for name, one in COMMANDS.items() if isinstance(one, TyperGroup))])
def test_a_group_without_a_command_shows_its_commands(program: Any, group: str) -> None:
    out = "".join(program(*group.split())[1:])
    names = [name for name in COMMANDS if name.rpartition(" ")[0] == group]
    if group != "data":  # lists the data sets
        assert all(name.rpartition(" ")[2] in out for name in names)


# What is slow to import: more than a hundredth of a second.
SLOW = {"numpy", "pandas", "pydantic", "pyarrow", "scipy", "sklearn", "matplotlib", "torch", "yaml", "asyncfl.scenario"}
SCENARIO_ALONE = {"numpy", "pydantic", "pyarrow", "yaml", "asyncfl.scenario"}
# Stand-in images are drawn once for a machine, and noise takes a function of scipy's.
TRAINING = SCENARIO_ALONE | {"torch", "matplotlib", "scipy"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("--help", set()),
        ("schema", SCENARIO_ALONE),
        ("explain protocol", SCENARIO_ALONE),
        ("timeline {file}", SCENARIO_ALONE),
        ("run {file} --set protocol.rounds=1 --set defence.strikes.threshold=1", TRAINING),
    ],
)
def test_a_command_imports_only_what_it_needs(command: str, expected: set[str], file: Path) -> None:
    arguments = command.format(file=file).split()
    code = (
        f"import sys; sys.argv = ['asyncfl', *{arguments}]\n"
        "from asyncfl.cli import main\n"
        f"try:\n    main()\nfinally:\n    print(*({SLOW} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.splitlines()[-1].split())
    assert found == expected or (command.startswith("run") and SCENARIO_ALONE | {"torch"} <= found <= expected)


def test_the_summaries_of_the_help_are_those_of_the_commands(program: Any) -> None:
    out = " ".join(program("--help")[1].replace("│", " ").split())
    for name, command in COMMANDS.items():
        if " " not in name:
            assert command.help.split("\n\n")[0] in out
