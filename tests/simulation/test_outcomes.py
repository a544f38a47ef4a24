"""What small runs end with (losses, times, bytes, noise, fates, detections), against a written list.

The runs are some of those of `benchmarks/digests.py`; of each protocol, scheme, attack, rule, detector and world one. A
number may differ by 1 in 10,000, since libraries round differently. `python tests/simulation/test_outcomes.py` writes
the list anew; read the difference.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl import Scenario, simulate

LIST = Path(__file__).with_name("outcomes.json")
LEFT_OUT = re.compile(
    r"timeline/|stop_at/|privacy/[a-z_]+/(buffered|fedasync)|attack/[a-z_]+/sync|world/alternating/(sync|fedasync)"
    r"|detector/(safl|spectral|aflguard)/sync|detector/(kardam|zeno..)/fedasync"
)
"""Runs that others stand for, or that tests of budgets and timelines look at."""
TOLD = "time_s|train_loss|test_loss|participants|clip_norm|sigma_.*|staleness_mean|bytes_.*|.*_positives|detector_.*"
COLUMNS = re.compile(TOLD)


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


def _outcome(changes: Mapping[str, Any]) -> dict[str, float]:
    """Means over the versions, the last test loss, sums over the clients, and the number of events of each kind."""
    run = simulate(Scenario.read(DIGESTS.BASE).override(dict(changes)))
    rounds, clients, events = (run.tables[name].to_pandas() for name in ("rounds", "clients", "events"))
    told = {name: rounds[name].to_numpy(dtype=float) for name in rounds if COLUMNS.fullmatch(name)}
    told = {name: values[np.isfinite(values)] for name, values in told.items()}
    outcome = {name: float(values.mean()) for name, values in told.items() if values.any()}
    outcome |= {"last test_loss": float(told["test_loss"][-1])} if len(told["test_loss"]) else {}
    for name in ("banned", "malicious_used", "exposures_up", "exposures_down"):
        outcome |= {name: int(clients[name].sum())} if clients[name].any() else {}
    outcome["weights"] = float(np.nansum(np.abs(events["weight"]) * (1 + events["client"])))
    return outcome | {f"{kind} events": number for kind, number in sorted(Counter(events["kind"]).items())}


def _written() -> dict[str, dict[str, float]]:
    written: dict[str, dict[str, float]] = json.loads(LIST.read_text(encoding="utf-8"))
    return written


def test_the_list_names_the_runs() -> None:
    assert list(_written()) == list(RUNS), "if this is meant: python tests/simulation/test_outcomes.py"


@pytest.mark.parametrize("name", list(RUNS))
def test_a_small_run_ends_as_written_down(name: str) -> None:
    assert _outcome(RUNS[name]) == pytest.approx(_written()[name], rel=1e-4)


if __name__ == "__main__":
    lines = [
        f'"{name}": {json.dumps({key: float(f"{value:.7g}") for key, value in _outcome(changes).items()})}'
        for name, changes in RUNS.items()
    ]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
