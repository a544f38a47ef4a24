"""Benchmarks that stand on the package's inside run, and print what they say that they print."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

LIVE = Path(__file__).parents[2] / "benchmarks" / "live.py"


def test_the_live_servers_rate_and_memory(tmp_path: Path) -> None:
    lines = tmp_path / "soak.tsv"
    clients = [sys.executable, LIVE, "--clients", "3", "--buffer", "2"]
    told = subprocess.run([*clients, "--seconds", "3"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert "updates/s of" in told[0]
    assert float(told[0].split()[0]) > 0
    subprocess.run([*clients, "--soak", "3", "--every", "1", "--out", lines], capture_output=True, check=True)
    head, *looks = (line.split("\t") for line in lines.read_text().splitlines())
    assert head[:2] == ["seconds", "updates"]
    updates = [int(look[1]) for look in looks]
    assert len(updates) == 2
    assert 0 < updates[0] < updates[1]
