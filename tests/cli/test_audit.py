"""`asyncfl audit`: what each command prints and writes, and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.cli.audit import print_bounds, print_rates
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run with noise, of five clients with 20 samples each."""
    return execute(Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 50}}), tmp_path / "run")


@pytest.fixture
def tapped(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A tapped run with noise."""
    changes = {"privacy": {"kind": "nbafl", "epsilon": 50}, "world": {**tiny["world"], "tap": {"uplink": True}}}
    return execute(Scenario.read({**tiny, **changes}), tmp_path / "run")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["canaries", "--count", 0], "Invalid value for '--count'"),
        (["canaries", "--count", 101], "--count: must be at most the number of samples of all clients (100), got 101"),
        (["canaries", "--count", 10, "--unit", "client"], "--count: must be at most the number of clients (5), got 10"),
        (["canaries", "--seed", 7], "--seed: must be one of the run's (0), got 7"),
        (["neighbours", "--clients", "some"], "must be a number, or numbers with commas (0,3,7), got 'some'"),
        (["neighbours", "--clients", ","], "--clients: must be a number, or numbers with commas"),
        (["neighbours", "--clients", "0"], "--clients: must be greater than or equal to 1, or must be a list, got 0"),
        (["neighbours", "--clients", "6"], "--clients: must be at most data.clients (5), got 6"),
        (["neighbours", "--clients", "4,5"], "--clients: must be 0..4 (data.clients is 5), got 5"),
        (["neighbours", "--clients", "2,2"], "--clients: must name at least one, each once, got [2, 2]"),
        (["neighbours", "--neighbours", "darkest"], "--neighbours: must be 'ordinary', 'mislabelled'"),
        (["neighbours", "--neighbours", ","], "--neighbours: must"),
        (["neighbours", "--twins", "0"], "Invalid value for '--twins'"),
        (["reconstruct", "--epsilon", "0"], "--epsilon: must be above 0, or inf for no noise, got 0"),
        (["reconstruct", "--epsilon", "nan"], "--epsilon: must be above 0, or inf for no noise, got nan"),
        (["reconstruct", "--method", "l2", "--most-parameters", "9"], "descent (l2) is for networks of at most 9"),
        (["reconstruct", "--client", "77"], "--client: must be one of the run's clients (0..4), got 77"),
        (["reconstruct", "--task", "7777", "--adversary", "server"], "no upload of task 7777 that the server"),
        (["reconstruct", "--seed", "5"], "--seed: must be one of the run's (0), got 5"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(
    refused: Any, tapped: Path, arguments: list[object], message: str
) -> None:
    before = sorted(path.name for path in tapped.iterdir())
    command, *options = arguments
    assert message in refused("audit", command, tapped, "--quiet", *options)
    assert sorted(path.name for path in tapped.iterdir()) == before


def test_clients_and_kinds_of_neighbours_are_chosen(program: Any, run: Path) -> None:
    options = ("--clients", "0,3", "--neighbours", "noise,zeroed", "--twins", 4)
    status, out, _ = program("audit", "neighbours", run, *options, "--json")
    assert status == 0
    rows = json.loads(out)["rows"]
    assert {row["client"] for row in rows if row["holder"] == "client"} == {0, 3}
    assert all(row["measured"] > 0 for row in rows)
    status, out, _ = program("audit", "neighbours", run, "--clients", "2,", "--neighbours", "sample", "--twins", 5)
    assert status == 0
    assert "rows of the ledger are measured" in out


def test_folders_without_a_run_and_diverged_seeds_are_refused(
    refused: Any, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    assert "holds no run" in refused("audit", "neighbours", tmp_path)
    overwhelmed = {"kind": "nbafl", "epsilon": 1e-38, "clip_norm": 20}
    wild = execute(Scenario.read({**tiny, "privacy": overwhelmed}), tmp_path / "wild")
    assert "seed 0 has diverged" in refused("audit", "neighbours", wild, "--quiet")


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
    assert re.search(r"server .* infinite", out)


def test_canary_clients_are_refused_where_samples_are_protected(
    refused: Any, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    noised = {"training": {**tiny["training"], "example_noise": 1.0, "example_clip": 1.0}}
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0}}
    folder = execute(Scenario.read({**tiny, **noised, **private}), tmp_path / "run")
    assert "--unit: must be sample with these privacy settings, got client" in refused(
        "audit", "canaries", folder, "--quiet", "--count", 4, "--unit", "client"
    )


def row(**changes: Any) -> dict[str, Any]:
    """A row of what an audit found."""
    found: dict[str, Any] = {"seed": 0, "adversary": "server", "measured": 1.2345, "most": 5.0, "delta": 1e-5}
    found |= {"measured_gaussian": 0.05, "claimed_epsilon": 1.2345, "exact_epsilon": None, "neighbours": "replace"}
    return found | {"right": 3, "guesses": 4, "score": "loss", "canaries": 10, "held": True, **changes}


# At delta 0.4 even 10 of 10 right guesses are explained by epsilon 0.
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"measured": 1.3}, "the claimed epsilon 1.23 is disproved; it is at least 1.3"),
        ({"measured": 1.3, "claimed_epsilon": None}, None),
        ({"measured": 1.3, "claimed_epsilon": 1.3}, None),
        ({"canaries": 0}, "all canaries belong to attacking clients"),
        ({"held": False, "most": 0.0}, "holds no upload or model"),
        ({"most": 0.0, "delta": 0.4, "canaries": 5}, "5 canaries can show nothing at delta 0.4"),
    ],
)
def test_a_sentence_explains_what_a_row_means(
    changes: dict[str, Any], sentence: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    print_bounds([row(**changes)])
    explained = " ".join(capsys.readouterr().out.split()).partition("so many canaries can give.")[2]
    assert explained.strip() == "" if sentence is None else sentence in explained


@pytest.fixture
def personal(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A run without noise whose clients keep their last layer."""
    model = {"kind": "mlp", "hidden": [4], "personal": ["3.*"]}
    return execute(
        Scenario.read({**tiny, "data": tiny["data"] | {"test_samples": 400}, "model": model}), tmp_path / "run"
    )


def test_rates_are_printed_and_drawn(program: Any, personal: Path) -> None:
    status, out, err = program("audit", "membership", personal, "--quiet", "--adversary", "server", "--worlds", 8)
    assert (status, err) == (0, "")
    printed = " ".join(out.split())
    assert "likelihood ratio of uploads" in printed
    assert "guessing finds 1 %" in printed
    assert "initial personal layers" in printed
    assert (personal / "audit" / "membership" / "roc-seed-0.png").exists()
    status, out, _ = program("audit", "membership", personal, "--adversary", "server", "--worlds", 8, "--json")
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


def test_the_quality_of_images_is_printed_within_80_columns(program: Any, tapped: Path) -> None:
    status, out, err = program("audit", "reconstruct", tapped, "--quiet", "--epsilon", "inf", "--epsilon", "10")
    assert (status, err) == (0, "")
    printed = " ".join(out.split())
    assert "20 images, 2 local steps, attacked as one; division at the first layer" in printed
    assert "known to the attacker: the network, the model that the client was sent" in printed
    rows = re.findall(r"^(no noise|ε = 10|as sent|guess without upload) .* dB .* %\s*$", out, flags=re.MULTILINE)
    assert rows == ["no noise", "ε = 10", "as sent", "guess without upload"]
    assert max(len(line) for line in out.splitlines() if str(tapped) not in line) <= 80
    files = sorted(path.name for path in (tapped / "reconstruction").iterdir())
    assert files == [f"reconstruction.{kind}" for kind in ("csv", "pdf", "png", "svg")]


def test_json_holds_a_row_for_each_level_of_noise(program: Any, tapped: Path, tmp_path: Path) -> None:
    found = json.loads(
        program("audit", "reconstruct", tapped, "--json", "--method", "labels", "--out", tmp_path / "out")[1]
    )
    assert found["method"] == "labels"
    assert [level["epsilon"] for level in found["levels"]] == [None, 10000.0, 1000.0, 100.0, 10.0, None]
    assert [level["no_noise"] for level in found["levels"]] == [True, False, False, False, False, False]
    assert [level["as_sent"] for level in found["levels"]] == [False, False, False, False, False, True]
    assert all(0 <= level["labels_right"] <= 1 for level in [*found["levels"], found["guess"]])
    assert found["files"] == [str(tmp_path / "out" / "reconstruction.csv")]
