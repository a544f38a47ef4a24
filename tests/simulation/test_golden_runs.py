"""A dozen whole runs against the few numbers of each in `golden_runs.json`.

They notice a change that no other test is about. Where such a change is right, write the file again:

    python tests/simulation/test_golden_runs.py

What depends on random numbers and the clock alone (versions, seconds, fates, uploads overheard) must be equal. Losses
and accuracies depend on the order in which a CPU adds floats: the tolerances in the file are some hundred times the
differences between BLAS kernels, and far below the effect of one more local epoch.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

FILE = Path(__file__).with_name("golden_runs.json")
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def measured(changes: dict[str, Any]) -> dict[str, Any]:
    """The numbers of one run."""
    run = simulate_seed(Scenario.read(GOLDEN["scenario"]).override(changes), 0)
    last, ledger = run.rounds[-1], SeedLedger(run).ledger
    epsilons = [
        row["exact_epsilon"]
        for row in ledger.to_pylist()
        if row["holder"] == "client" and row["adversary"] == "eavesdropper"
    ]
    return {
        "stopped": run.stopped,
        "versions": last["version"],
        "virtual_s": last["time_s"],
        "fates": {fate: number for fate, number in run.fates.items() if number},
        "uploads_overheard_of_one_client": max(run.traffic.overheard_up.values(), default=0),
        "train_loss": last["train_loss"],
        "test_accuracy": last["test_accuracy"],
        "greatest_epsilon_against_eavesdropper": max(epsilons),
    }


@pytest.mark.parametrize("name", GOLDEN["runs"])
def test_a_run_has_the_numbers_in_the_file(name: str) -> None:
    run = GOLDEN["runs"][name]
    found = measured(run["changes"])
    assert found.keys() == run["numbers"].keys()
    for key, wanted in run["numbers"].items():
        tolerance = GOLDEN["tolerances"].get(key)
        wanted = float(wanted) if isinstance(wanted, str) and key != "stopped" else wanted
        assert found[key] == (wanted if tolerance is None else pytest.approx(wanted, **tolerance)), key


def write() -> None:
    """Run all, and write the file anew."""
    for run in GOLDEN["runs"].values():
        numbers = measured(run["changes"])
        run["numbers"] = {
            key: str(value) if isinstance(value, float) and value == float("inf") else value
            for key, value in numbers.items()
        }
    FILE.write_text(json.dumps(GOLDEN, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
