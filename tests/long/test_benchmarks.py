"""Benchmarks that stand on the package's inside run, and print what they say that they print."""

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from asyncfl.learning.kernels import available

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PEERS = BENCHMARKS / "peers" / "compare.py"
CONVOLUTIONS = BENCHMARKS / "convolutions.py"


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


def test_kernels_take_turns_on_a_step_and_train_alike() -> None:
    command = [sys.executable, CONVOLUTIONS, "--repeats", "1", "--images", "64"]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    rows = re.findall(r"^(LeNet|SmallCnn) +(\w+) +(\d+\.\d+) .* (\d\.\de[-+]\d\d)$", text, re.MULTILINE)
    assert [(title, kernels) for title, kernels, *_ in rows] == list(product(["LeNet", "SmallCnn"], available()))
    assert all(float(ms) > 0 for _, _, ms, _ in rows)
    assert all(float(difference) < 1e-4 for *_, difference in rows)
