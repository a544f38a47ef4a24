from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from asyncfl.api import execute
from asyncfl.cli import app
from asyncfl.cli.audit_canaries import print_found
from asyncfl.cli.audit_membership import print_found as print_memberships
from asyncfl.errors import RunError, ScenarioError
from asyncfl.scenario import Scenario


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 50}}), tmp_path / "run")


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    result = call(str(tmp_path))
    assert isinstance(result.exception, RunError)
    assert "holds no run" in str(result.exception)


def test_a_run_can_be_audited(run: Path) -> None:
    result = call(str(run), "--quiet")
    assert result.exit_code == 0, result.output


def test_canaries_are_counted_and_told(run: Path) -> None:
    result = call(str(run), "--quiet", "--canaries", "100", "--canary-delta", "1e-5")
    assert result.exit_code == 0, result.output
    assert "100 canary samples (mislabelled), each in or out by a coin" in result.output
    assert "All are epsilons at delta 1e-05 (neighbours: one sample replaced)" in result.output
    assert "eavesdropper, seed 0: it holds nothing that could be measured" in result.output
    assert (run / "audit" / "attacks.parquet").exists()
    assert [place.name for place in (run / "audit").glob("canaries-*/*")] != []
    # What holds at a smaller delta is no bound at the claim's.
    assert "0 rows of the ledger are measured by them" in result.output


def test_canaries_that_can_show_nothing_are_told(run: Path) -> None:
    result = call(str(run), "--quiet", "--canaries", "100")
    said = " ".join(result.output.split())
    assert said.count("100 canaries can show nothing at delta 0.01: ask at a smaller delta with --canary-delta") == 1


def test_one_canary_is_told_to_be_too_few(run: Path) -> None:
    said = " ".join(call(str(run), "--quiet", "--canaries", "1").output.split())
    assert "1 canary sample (mislabelled)" in said
    assert said.count("1 canary can show nothing, at whatever delta: plant more") == 1


def test_without_noise_an_infinite_claim_is_told(tmp_path: Path, tiny: dict[str, Any]) -> None:
    folder = execute(Scenario.read(tiny), tmp_path / "plain")
    result = call(str(folder), "--quiet", "--canaries", "5", "--canary-unit", "client")
    assert result.exit_code == 0, result.output
    assert "server, seed 0: nothing is claimed, the claim is infinite" in result.output
    # There is nobody on the links, from whom nothing would have to be hidden.
    assert "eavesdropper, seed 0: it holds nothing" in result.output
    assert "eavesdropper, seed 0: nothing is claimed" not in result.output


def test_no_canaries_and_too_many(run: Path) -> None:
    for options, said in (
        (["0"], "--canaries: must be at least 1, got 0"),
        (["101"], "--canaries: must be at most the number of samples of all clients (100), got 101"),
        (["10", "--canary-unit", "client"], "--canaries: must be at most the number of clients (5), got 10"),
    ):
        result = call(str(run), "--quiet", "--canaries", *options)
        assert isinstance(result.exception, ScenarioError)
        assert [str(fault) for fault in result.exception.faults] == [said]
    assert not (run / "audit").exists()


def test_what_the_run_cannot_have_as_canaries_names_the_option(tmp_path: Path, tiny: dict[str, Any]) -> None:
    noised = {"training": {**tiny["training"], "example_noise": 1.0, "example_clip": 1.0}}
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0}}
    folder = execute(Scenario.read({**tiny, **noised, **private}), tmp_path / "run")
    result = call(str(folder), "--quiet", "--canaries", "4", "--canary-unit", "client")
    assert isinstance(result.exception, ScenarioError)
    (fault,) = result.exception.faults
    assert fault.field == "--canary-unit"
    assert "must be sample with these privacy settings, got client" in fault.message


@pytest.mark.parametrize("claimed", [0.5, 4.0])
def test_a_claim_below_what_was_measured_is_disproved(claimed: float, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "seed": 0,
        "adversary": "server",
        "neighbours": "one sample replaced",
        "delta": 1e-5,
        "claimed_epsilon": claimed,
        "exact_epsilon": None,
        "measured": 1.25,
        "most": 3.0,
        "measured_gaussian": 2.0,
        "held": 3,
        "score": "uploads",
        "canaries": 100,
        "guesses": 50,
        "right": 49,
    }
    print_found([row])
    shown = capsys.readouterr().out
    assert "49 of 50, uploads" in shown
    assert ("the claim of 0.5 is disproved, it is at least 1.25" in shown) == (claimed == 0.5)


def test_membership_is_told_and_drawn(tmp_path: Path, tiny: dict[str, Any]) -> None:
    model = {"kind": "mlp", "hidden": [4], "personal": ["3.*"]}
    described = {**tiny, "data": tiny["data"] | {"test_samples": 400}, "model": model}
    folder = execute(Scenario.read(described), tmp_path / "plain")
    result = call(str(folder), "--quiet", "--membership", "--adversary", "server", "--worlds", "8")
    assert result.exit_code == 0, result.output
    assert "likelihood ratio of uploads" in result.output
    assert "guessing finds 1 %" in result.output
    assert "whoever attacks had only the initial personal layers" in " ".join(result.output.split())
    assert (folder / "audit" / "membership" / "roc-seed-0.png").exists()


def test_memberships_are_told_in_percent(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"true_positive_rate": 0.12345, "rate_low": 0.1, "rate_high": 0.20555, "area": 0.56789}
    row: dict[str, Any] = {"seed": 3, "adversary": "both", "attack": "loss", **rates, "members": 70, "others": 90}
    print_memberships([row, {**row, "seed": 4}])
    shown = capsys.readouterr().out.splitlines()
    told = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown]
    cells = ["both", "loss", "12.35", "10.00 to 20.55", "70", "90", "0.568"]
    assert ["3", *cells] in told
    assert ["4", *cells] in told


def test_two_audits_at_once_are_refused(run: Path) -> None:
    result = call(str(run), "--canaries", "10", "--membership")
    assert "--membership: must be left out with --canaries" in str(result.exception)


@pytest.mark.parametrize("options", [["--canaries", "10"], ["--membership"]])
def test_json_that_there_is_not_is_refused(run: Path, options: list[str]) -> None:
    result = call(str(run), *options, "--json")
    assert f"--json: has no effect with {options[0]}" in str(result.exception)
    assert not (run / "audit").exists()
