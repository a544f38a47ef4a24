"""Benchmarks that stand on the package's inside run, and print what they say that they print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIVE, LIARS = BENCHMARKS / "live.py", BENCHMARKS / "liars.py"
PEERS = BENCHMARKS / "peers" / "compare.py"


def test_the_live_servers_rate_and_memory() -> None:
    clients = [sys.executable, LIVE, "--clients", "3", "--buffer", "2"]
    told = subprocess.run([*clients, "--seconds", "3"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "updates/s of" in told[0]
    assert float(told[0].split()[0]) > 0


def test_liars_are_counted_while_honest_clients_train(tmp_path: Path) -> None:
    lines = tmp_path / "soak.tsv"
    command = [sys.executable, LIARS, "--clients", "4", "--liars", "1", "--buffer", "2", "--seconds", "12"]
    subprocess.run([*command, "--every", "4", "--out", lines], capture_output=True, check=True)
    written = lines.read_text().splitlines()
    looks = [line.split("\t") for line in written if "\t" in line]
    assert int(looks[-1][1].split()[1]) > 0
    assert any(line.startswith("ended because time limit reached") for line in written)
    assert "rounds.parquet" in written[-1]


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
