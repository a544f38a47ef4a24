"""`asyncfl audit membership`."""

import json
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.cli.audit import print_rates
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run without noise whose clients keep their last layer."""
    model = {"kind": "mlp", "hidden": [4], "personal": ["3.*"]}
    return execute(
        Scenario.read({**tiny, "data": tiny["data"] | {"test_samples": 400}, "model": model}), tmp_path / "run"
    )


def test_rates_are_printed_and_drawn(program: Any, run: Path) -> None:
    status, out, err = program("audit", "membership", run, "--quiet", "--adversary", "server", "--worlds", 8)
    assert (status, err) == (0, "")
    printed = " ".join(out.split())
    assert "likelihood ratio of uploads" in printed
    assert "guessing finds 1 %" in printed
    assert "initial personal layers" in printed
    assert (run / "audit" / "membership" / "roc-seed-0.png").exists()
    status, out, _ = program("audit", "membership", run, "--adversary", "server", "--worlds", 8, "--json")
    found = json.loads(out)
    assert all(0 <= row["true_positive_rate"] <= 1 for row in found["rows"])
    # The attack on the last published model is anybody's.
    assert {row["adversary"] for row in found["rows"]} == {"server", "public_last"}
    assert all(Path(file).exists() for file in found["files"])


def test_rates_are_printed_in_percent(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"true_positive_rate": 0.12345, "rate_low": 0.1, "rate_high": 0.20555, "area": 0.56789}
    rates |= {"area_low": 0.5, "area_high": 0.6}
    row = {"seed": 3, "adversary": "both", "attack": "loss", **rates, "members": 70, "others": 90}
    print_rates([row, {**row, "seed": 4}])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    cells = ["both", "loss", "12.35", "10.00", "to", "20.55", "70", "90", "0.568", "0.500", "to", "0.600"]
    assert lines[1:3] == [["3", *cells], ["4", *cells]]
