"""`asyncfl audit canaries`."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.cli.audit import print_bounds
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise, of five clients with 20 samples each."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 50}}), tmp_path / "run")


def test_the_audit_prints_bounds_and_writes_its_run(program: Any, run: Path) -> None:
    status, out, err = program("audit", "canaries", run, "--quiet", "--count", 100, "--delta", 1e-5)
    assert (status, err) == (0, "")
    assert "100 canary samples (mislabelled), each in or out by a coin" in out
    assert "epsilon at delta 1e-05 (neighbours: one sample replaced)" in out
    assert "eavesdropper, seed 0: holds no upload" in out  # the run has no tap
    assert (run / "audit" / "attacks.parquet").exists()
    assert list((run / "audit").glob("canaries-*/scores.parquet"))
    # The claim is for delta 0.01: a bound at a smaller delta says nothing about it.
    assert "rows of the ledger with a bound from them: 0" in out


def test_json_holds_the_rows(program: Any, run: Path) -> None:
    status, out, _ = program("audit", "canaries", run, "--count", 100, "--unit", "sample", "--json")
    found = json.loads(out)
    assert status == 0
    assert {row["adversary"] for row in found["rows"]} >= {"server", "eavesdropper", "public"}
    assert all(row["canaries"] <= 100 for row in found["rows"])
    assert Path(found["canaries"], "scenario.yaml").exists()


def test_a_run_without_noise_has_an_infinite_claim(program: Any, tmp_path: Path, tiny: dict[str, Any]) -> None:
    folder = execute(Scenario.read(tiny), tmp_path / "plain")
    status, out, _ = program("audit", "canaries", folder, "--quiet", "--count", 5, "--unit", "client")
    assert status == 0
    assert "server, seed 0: the claimed epsilon is infinite" in out
    assert "eavesdropper, seed 0: the claimed epsilon" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count", 0], "'--count': Input should be greater than or equal to 1"),
        (["--count", 101], "--count: must be at most the number of samples of all clients (100), got 101"),
        (["--count", 10, "--unit", "client"], "--count: must be at most the number of clients (5), got 10"),
        (["--seed", 7], "--seed: must be one of the run's (0), got 7"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(
    program: Any, run: Path, options: list[object], message: str
) -> None:
    status, _, err = program("audit", "canaries", run, "--quiet", *options)
    assert status == 2
    assert message in " ".join(err.split())
    assert not (run / "audit").exists()


def test_canary_clients_are_refused_where_samples_are_protected(
    program: Any, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    noised = {"training": {**tiny["training"], "example_noise": 1.0, "example_clip": 1.0}}
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0}}
    folder = execute(Scenario.read({**tiny, **noised, **private}), tmp_path / "run")
    status, _, err = program("audit", "canaries", folder, "--quiet", "--count", 4, "--unit", "client")
    assert status == 2
    assert "--unit: must be sample with these privacy settings, got client" in err


def row(**changes: Any) -> dict[str, Any]:
    """A row of what an audit found."""
    found: dict[str, Any] = {"seed": 0, "adversary": "server", "measured": 1.2345, "most": 5.0, "delta": 1e-5}
    found |= {"measured_gaussian": 0.05, "claimed_epsilon": 1.2345, "exact_epsilon": None, "neighbours": "replace"}
    return found | {"right": 3, "guesses": 4, "score": "loss", "canaries": 10, "held": True, **changes}


# k canaries, all guessed right, have probability at least 0.05 under epsilon 0 (guessing by coins) if 2**-k >= 0.05,
# so if k <= 4. At delta 0.4 even 10 of 10 right guesses are explained by epsilon 0.
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"measured": 1.3}, "the claimed epsilon 1.23 is disproved; it is at least 1.3"),
        ({"measured": 1.3, "claimed_epsilon": None}, None),
        ({"measured": 1.3, "claimed_epsilon": 1.3}, None),
        ({"canaries": 0}, "all canaries belong to attacking clients"),
        ({"held": False, "most": 0.0}, "holds no upload or model"),
        ({"most": 0.0, "delta": 0.4, "canaries": 4}, "4 canaries can show nothing at any delta: plant more"),
        ({"most": 0.0, "delta": 0.4, "canaries": 5}, "5 canaries can show nothing at delta 0.4"),
        ({"claimed_epsilon": math.inf}, "the claimed epsilon is infinite"),
        ({"claimed_epsilon": math.inf, "held": False}, "holds no upload or model"),
    ],
)
def test_a_sentence_explains_what_a_row_means(
    changes: dict[str, Any], sentence: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    print_bounds([row(**changes)])
    explained = " ".join(capsys.readouterr().out.split()).partition("so many canaries can give.")[2]
    assert explained.strip() == "" if sentence is None else sentence in explained
