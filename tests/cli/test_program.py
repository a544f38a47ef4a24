"""The program as a whole: its version, its errors and how it ends."""

import io
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from asyncfl.base.errors import RunError
from asyncfl.cli import main


def test_the_version(program: Any) -> None:
    assert program("--version") == (0, "asyncfl 0.1.0\n", "")


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


@pytest.mark.parametrize("option", ["--version", "--client", "--task", "--seed", "--limit"])
def test_numbers_beyond_64_bits_are_refused(program: Any, tmp_path: Path, option: str) -> None:
    for number, limit in (
        ("9" * 400, "must be at most 9223372036854775807"),
        ("-" + "9" * 19, "greater than or equal"),
    ):
        status, _, err = program("trace", "events", tmp_path, option, number)
        assert (status, limit in " ".join(err.split())) == (2, True)


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
