"""`asyncfl timeline`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """The file of a scenario with an eavesdropper on all uplinks."""
    path = tmp_path / "scenario.yaml"
    tiny["world"]["tap"] = {"uplink": True}
    path.write_text(yaml.safe_dump(tiny))
    return path


def test_the_clock_is_summarised(file: Path, program: Any) -> None:
    status, out, err = program("timeline", file)
    assert (status, err) == (0, "")
    assert "seed 0: 3 versions in" in out
    assert "exposure: L = 3; 5 clients overheard" in out
    assert "fates: aggregated 15" in out


def test_a_trace_of_fates_has_the_numbers_of_a_whole_one(file: Path, program: Any) -> None:
    command = ("timeline", file, "--json", "--set", "world.uplink.loss={kind: independent, probability: 0.2}")
    (whole,), (fates,) = (json.loads(program(*command, *more)[1])["seeds"] for more in ((), ("--fates",)))
    assert whole["traffic"].pop("messages_retransmitted") > 0
    assert fates["traffic"].pop("messages_retransmitted") is None
    assert whole == fates


def test_energy_is_not_computed_from_fates(file: Path, program: Any) -> None:
    status, _, err = program("timeline", file, "--fates", "--set", "world.power.compute_w=3")
    assert (status, "world.power: must be null with --fates" in err) == (2, True)


def test_lost_cohorts_explain_an_exposure_above_the_number_of_versions(file: Path, program: Any) -> None:
    loss = ["loss.kind=independent", "loss.probability=0.8", "retransmissions=0", "mtu_bytes=100000"]
    status, out, _ = program("timeline", file, *(f"--set=world.uplink.{setting}" for setting in loss))
    assert status == 0
    assert "cohorts repeated: " in out
    assert "L may exceed the number of versions" in " ".join(out.split())


def test_json_and_the_folder_hold_the_same_numbers(file: Path, tmp_path: Path, program: Any) -> None:
    command = ("timeline", file, "--set", "protocol.rounds=4", "--set", "seeds=2", "--json", "--out", tmp_path / "out")
    status, out, _ = program(*command)
    assert status == 0
    seeds = json.loads(out)["seeds"]
    assert [one["versions"] for one in seeds] == [4, 4]
    assert seeds == json.loads((tmp_path / "out" / "timeline.json").read_text())["seeds"]
    assert (tmp_path / "out" / "progress.svg").exists()


def test_only_a_timeline_is_replaced(file: Path, tmp_path: Path, program: Any, refused: Any) -> None:
    out = tmp_path / "out"
    assert program("timeline", file, "--out", out)[0] == 0
    assert program("timeline", file, "--out", out, "--set", "protocol.rounds=2")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    refused("timeline", file, "--out", tmp_path / "mine")


def test_attackers_and_energy_are_printed(file: Path, program: Any) -> None:
    threats = "threats={attackers: 1, attack: {kind: sign_flip}}"
    power = "world.power={compute_w: 5, send_w: 2, receive_w: 1, idle_w: 0.5}"
    status, out, _ = program("timeline", file, "--set", threats, "--set", power)
    assert status == 0
    assert "attackers: 20.0% of the updates that arrived" in out, "one of five clients"
    assert re.search(r"energy: .*J \(compute .*J, send .*J, receive .*J, idle .*J\); of a client .*J", out)
