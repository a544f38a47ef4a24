"""An exception of any type in a user's component ends the run with a message, never as if the run were complete."""

from pathlib import Path
from typing import Any

import pytest
import yaml

RULE = """
from asyncfl.defences import Rule


class Failing(Rule):
    kind: str
    version: int = 1

    def aggregate(self, updates, weights):
        raise {error}("in my rule")
"""

ERRORS = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "BrokenPipeError", "EOFError", "KeyError")


@pytest.mark.parametrize("command", [("run",), ("live", "here", "--virtual")], ids=["simulated", "live"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.usefixtures("no_own_module_stays")
def test_an_exception_that_python_or_the_shell_use_for_control_flow_is_not_taken_for_that(
    program: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, command: tuple[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_failing.py").write_text(RULE.format(error=error))
    Path("scenario.yaml").write_text(yaml.safe_dump({**tiny, "defence": {"rule": {"kind": "my_failing:Failing"}}}))
    status, _, message = program(*command, "scenario.yaml", "--out", "out", "--quiet")
    assert status == 1
    assert "my_failing:Failing.aggregate failed: " in message
    assert f"line 10: {error}: " in message
    assert not Path("out", "summary.json").exists()
