"""The trackers that the documentation shows, with services that write down what they are told."""

from __future__ import annotations

import math
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from asyncfl import simulate
from asyncfl.base.tracking import Tracker

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "trackers.md").read_text(encoding="utf-8"), re.DOTALL)


class Service(types.ModuleType):
    """A package of a service: calls of its functions, in their order."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*given: Any, **named: Any) -> Service:
            self.told.append((name, given, named))
            return self

        return function

    @property
    def summary(self) -> Service:
        """What a run of Weights & Biases keeps."""
        return self


@pytest.mark.parametrize(
    ("package", "name", "logs"), [("mlflow", "Mlflow", "log_metrics"), ("wandb", "WeightsAndBiases", "log")]
)
def test_it_is_about_ten_lines_and_tells_every_version(
    monkeypatch: pytest.MonkeyPatch, tiny: dict[str, Any], package: str, name: str, logs: str
) -> None:
    (code,) = [block for block in BLOCKS if f"import {package}" in block]
    service = Service(package)
    monkeypatch.setitem(sys.modules, package, service)
    found: dict[str, Any] = {}
    exec(compile(code, "docs/trackers.md", "exec"), found)
    body = code[code.index("class ") :].strip().splitlines()
    assert len([line for line in body if line.strip()]) <= 12
    tracker = found[name]()
    assert isinstance(tracker, Tracker)
    run = simulate(tiny)
    tracker.begin("mine", run.scenario.model_dump(mode="json"))
    for row in run.rounds.to_dict("records"):
        tracker.row(row)
    tracker.end(run.summary)
    tracker.close()
    numbers = [given[0] for what, given, _ in service.told if what == logs]
    assert len(numbers) == len(run.rounds)
    last = run.rounds.iloc[-1]
    assert numbers[-1]["test_accuracy/0"] == last["test_accuracy"]
    if package == "mlflow":
        assert all(math.isfinite(value) for told in numbers for value in told.values())
