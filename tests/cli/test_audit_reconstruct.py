"""`asyncfl audit reconstruct`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A tapped run with noise."""
    changes = {"privacy": {"kind": "nbafl", "epsilon": 50}, "world": {**tiny["world"], "tap": {"uplink": True}}}
    return execute(Scenario.read({**tiny, **changes}), tmp_path / "run")


def test_the_quality_of_images_is_printed_within_80_columns(program: Any, run: Path) -> None:
    status, out, err = program("audit", "reconstruct", run, "--quiet", "--epsilon", "inf", "--epsilon", "10")
    assert (status, err) == (0, "")
    printed = " ".join(out.split())
    assert "20 images, 2 local steps, attacked as one; division at the first layer" in printed
    assert "known to the attacker: the network, the model that the client was sent" in printed
    rows = re.findall(r"^(no noise|ε = 10|as sent|guess without upload) .* dB .* %\s*$", out, flags=re.MULTILINE)
    assert rows == ["no noise", "ε = 10", "as sent", "guess without upload"]
    assert max(len(line) for line in out.splitlines() if str(run) not in line) <= 80
    files = sorted(path.name for path in (run / "reconstruction").iterdir())
    assert files == [f"reconstruction.{kind}" for kind in ("csv", "pdf", "png", "svg")]


def test_json_holds_a_row_for_each_level_of_noise(program: Any, run: Path, tmp_path: Path) -> None:
    found = json.loads(
        program("audit", "reconstruct", run, "--json", "--method", "labels", "--out", tmp_path / "out")[1]
    )
    assert found["method"] == "labels"
    assert [level["epsilon"] for level in found["levels"]] == [None, 10000.0, 1000.0, 100.0, 10.0, None]
    assert [level["no_noise"] for level in found["levels"]] == [True, False, False, False, False, False]
    assert [level["as_sent"] for level in found["levels"]] == [False, False, False, False, False, True]
    assert all(0 <= level["labels_right"] <= 1 for level in [*found["levels"], found["guess"]])
    assert found["files"] == [str(tmp_path / "out" / "reconstruction.csv")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "0"], "--epsilon: must be above 0, or inf for no noise, got 0"),
        (["--epsilon", "nan"], "--epsilon: must be above 0, or inf for no noise, got nan"),
        (["--method", "l2", "--most-parameters", "9"], "descent (l2) is for networks of at most 9 parameters"),
        (["--client", "77"], "--client: must be one of the run's clients (0..4), got 77"),
        (["--task", "7777"], "no upload of task 7777 that the server collected"),
        (["--seed", "5"], "--seed: must be one of the run's (0), got 5"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(
    program: Any, run: Path, arguments: list[str], message: str
) -> None:
    status, _, err = program("audit", "reconstruct", run, "--quiet", *arguments)
    assert status == 2
    assert message in err
    assert not (run / "reconstruction").exists()
