"""What small runs come to (all tables, and what is said of them), against a written list.

The runs are some of those of `benchmarks/digests.py`; of each protocol, scheme, attack, rule, detector and world one. A
number may differ by 1 in 10,000, since libraries round differently. `python tests/simulation/test_outcomes.py` writes
the list anew; read the difference.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncfl import Scenario, simulate
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("outcomes.json")
LEFT_OUT = re.compile(
    r"timeline/|stop_at/|privacy/[a-z_]+/(buffered|fedasync)|attack/[a-z_]+/sync|world/alternating/(sync|fedasync)"
    r"|detector/(safl|spectral|aflguard)/sync|detector/(kardam|zeno..)/fedasync|detector/(async_filter|fldetector)/(sync|fedasync)"
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


@pytest.mark.parametrize("name", list(RUNS))
def test_a_small_run_ends_as_written_down(name: str) -> None:
    compare(LIST, name, partial(_outcome, RUNS[name]), rel=1e-4)


if __name__ == "__main__":
    write(LIST, {name: partial(_outcome, changes) for name, changes in RUNS.items()})
