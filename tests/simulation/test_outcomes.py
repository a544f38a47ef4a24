"""What small runs come to (all tables, and what is said of them), against a written list.

The runs are some of those of `benchmarks/digests.py`; of each protocol, scheme, attack, rule, detector and world one. A
number may differ by 1 in 10,000, since libraries round differently. `python tests/simulation/test_outcomes.py` writes
the list anew; read the difference.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncfl import Scenario, simulate
from tests.written import sums

LIST = Path(__file__).with_name("outcomes.json")
LEFT_OUT = re.compile(
    r"timeline/|stop_at/|privacy/[a-z_]+/(buffered|fedasync)|attack/[a-z_]+/sync|world/alternating/(sync|fedasync)"
    r"|detector/(safl|spectral|aflguard)/sync|detector/(kardam|zeno..)/fedasync"
)
"""Runs that others stand for, or that tests of budgets and timelines look at."""
TABLES = ("rounds", "clients", "events", "ledger", "spending")


def _module() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "digests.py"
    spec = importlib.util.spec_from_file_location("digests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DIGESTS = _module()
RUNS: dict[str, dict[str, Any]] = {name: changes for name, changes in DIGESTS.scenarios() if not LEFT_OUT.match(name)}


def _outcome(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Sums over the columns of each table, the number of each word in them, and what is said of the run."""
    run = simulate(Scenario.read(DIGESTS.BASE).override(dict(changes)))
    outcome: dict[str, Any] = {}
    for name in TABLES:
        outcome |= {f"{name} {key}": one for key, one in sums(run.tables[name]).items()}
    for seed in run.summary["seeds"].values():
        outcome["stopped"] = seed["stopped"]
        outcome |= {f"tasks {key}": one for key, one in seed["tasks"].items()}
    return outcome | {"notes": run.summary["notes"], "privacy": run.summary["privacy"]}


def _written() -> dict[str, dict[str, Any]]:
    written: dict[str, dict[str, Any]] = json.loads(LIST.read_text(encoding="utf-8"))
    return written


def test_the_list_names_the_runs() -> None:
    assert list(_written()) == list(RUNS), "if this is meant: python tests/simulation/test_outcomes.py"


@pytest.mark.parametrize("name", list(RUNS))
def test_a_small_run_ends_as_written_down(name: str) -> None:
    seen, written = _outcome(RUNS[name]), _written()[name]
    words = {key for key, one in written.items() if not isinstance(one, int | float)}
    assert {key: seen[key] for key in words} == {key: written[key] for key in words}
    numbers = {key: one for key, one in seen.items() if key not in words}
    assert numbers == pytest.approx({key: one for key, one in written.items() if key not in words}, rel=1e-4, abs=1e-9)


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


if __name__ == "__main__":
    lines = [
        f'"{name}": {json.dumps({key: _short(value) for key, value in _outcome(changes).items()}, ensure_ascii=False)}'
        for name, changes in RUNS.items()
    ]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
