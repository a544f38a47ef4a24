"""`asyncfl timeline`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.cli.timeline import _report


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


def test_only_a_timeline_is_replaced(file: Path, tmp_path: Path, program: Any) -> None:
    out = tmp_path / "out"
    assert program("timeline", file, "--out", out)[0] == 0
    assert program("timeline", file, "--out", out, "--set", "protocol.rounds=2")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert program("timeline", file, "--out", tmp_path / "mine")[0] == 2


def report(capsys: Any, **changes: Any) -> str:
    spread = {"mean": 90.0, "low": 0.5, "median": 1.0, "high": 120.0, "most": 3600.0}
    none = dict.fromkeys(spread)
    one = {
        "seed": 4, "versions": 3, "virtual_s": 90.0, "ended": "all versions published",
        "round_s": spread, "staleness": none, "tasks_of_client": spread,
        "exposure": {"of_client": none, "models_of_client": none, "most_overheard_client": 2, "clients_overheard": 5,
                     "versions_overheard": 6, "versions_sent": 7},
        "traffic": {"up_bytes": 1500, "down_bytes": 2e6, "messages_retransmitted": 8},
        "cohorts_repeated": 0, "attackers_share_of_arrivals": None, "fates": {"lost_up": 2, "aggregated": 0},
    }  # fmt: skip
    _report(one | changes)
    return " ".join(capsys.readouterr().out.split())


def test_numbers_are_printed_with_units(capsys: Any) -> None:
    shown = report(capsys)
    assert shown.startswith("seed 4: 3 versions in 1.5 min; all versions published")
    assert "time between versions 1.5 min 500 ms 1 s 2 min 1 h" in shown
    assert "staleness in versions – – – – –" in shown
    assert "tasks of a client 90 0.5 1 120 3600" in shown
    assert "6 of 7 versions sent overheard on the downlink" in shown
    assert "traffic: 1.5 kB up, 2 MB down, 8 messages retransmitted" in shown
    assert shown.endswith("fates: lost up 2")


def test_attackers_and_energy_are_printed_where_there_are_any(capsys: Any) -> None:
    joules = {"sum": 2e3, "compute": 1e3, "send": 500.0, "receive": 0.25, "idle": 0.0}
    joules["of_client"] = {"median": 40.0, "most": 90.0}  # type: ignore[assignment]
    shown = report(capsys, attackers_share_of_arrivals=0.1234, energy_j=joules, fates={})
    assert "attackers: 12.3% of the updates that arrived" in shown
    assert "energy: 2 kJ (compute 1 kJ, send 500 J, receive 250 mJ, idle 0 J)" in shown
    assert shown.endswith("fates: no task was begun")
