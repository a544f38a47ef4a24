"""Benchmarks that stand on the package's inside run, and print what they say that they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIVE, SOAK = BENCHMARKS / "live.py", BENCHMARKS / "soak.py"
PEERS = BENCHMARKS / "peers" / "compare.py"


def test_the_live_servers_rate_and_memory() -> None:
    clients = [sys.executable, LIVE, "--clients", "3", "--buffer", "2"]
    told = subprocess.run([*clients, "--seconds", "3"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "updates/s of" in told[0]
    assert float(told[0].split()[0]) > 0


def test_a_soak_with_liars_ends_with_whole_tables_of_both_federations(tmp_path: Path) -> None:
    command = [
        sys.executable,
        SOAK,
        "--minutes",
        "0.2",
        "--clients",
        "12",
        "--liars",
        "5",
        "--folder",
        tmp_path / "soak",
    ]
    told = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    runs = [re.match(r"(honest|liars): (\d+) versions, accuracy ([\d.]+) %", line) for line in told]
    assert [found[1] for found in runs if found and int(found[2]) > 0] == ["honest", "liars"], told
    # In so short a time accuracies are anything.
    assert not re.search("missing|add up|twice|exit status|memory grew", told[-1]), told


def test_simulators_take_turns_on_a_workload_and_lose_alike(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    command = [sys.executable, PEERS, "--environments", tmp_path / "environments", "--out", table]
    command += ["--simulator", "asyncfl", "plain", "--workload", "logistic", "--repeats", "2"]
    subprocess.run(command, capture_output=True, check=True)
    text = table.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| logistic regression"))
    own, plain = (float(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+)(?: \([\d.]+\))? (?=\|)", row))
    assert min(own, plain) > 0
    losses = [float(loss) for loss in re.findall(r"(?:asyncfl|plain) (\d\.\d+)", text.partition("test loss")[2])]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)
