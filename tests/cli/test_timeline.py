import json
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from asyncfl.analysis import timeline_files
from asyncfl.cli import app
from asyncfl.cli.timeline import _report


@pytest.fixture
def file(tmp_path, tiny):
    path = tmp_path / "scenario.yaml"
    tiny["world"]["tap"] = {"uplink": True}
    path.write_text(yaml.safe_dump(tiny))
    return path


def test_the_clock_is_told_in_words(file):
    result = CliRunner().invoke(app, ["timeline", str(file)])
    assert result.exit_code == 0, result.output
    assert "seed 0: 3 versions in" in result.output
    assert "exposure: L = 3; 5 clients overheard" in result.output
    assert "fates: aggregated 15" in result.output


def test_cohorts_that_are_lost_whole_explain_an_exposure_above_the_versions(file):
    lossy = [
        "world.uplink.loss.kind=independent",
        "world.uplink.loss.probability=0.8",
        "world.uplink.retransmissions=0",
    ]
    small = [f"--set={setting}" for setting in [*lossy, "world.uplink.mtu_bytes=100000"]]
    result = CliRunner().invoke(app, ["timeline", str(file), *small])
    assert result.exit_code == 0, result.output
    assert "cohorts repeated: " in result.output
    assert "L may exceed the number of versions" in " ".join(result.output.split())


def test_the_clock_as_json_and_on_disk(file, tmp_path):
    arguments = ["timeline", str(file), "--set", "protocol.rounds=4", "--set", "seeds=2", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    assert [one["versions"] for one in said["seeds"]] == [4, 4]
    assert said["seeds"] == json.loads((tmp_path / "out" / "timeline.json").read_text())["seeds"]
    assert (tmp_path / "out" / "progress.svg").exists()


def test_a_timeline_takes_the_place_of_one_of_another_scenario_and_of_nothing_else(file, tmp_path, monkeypatch):
    monkeypatch.setattr("asyncfl.analysis.timeline_files.write_timeline", lambda *given: written.append(given) or [])
    written, out, checked = [], tmp_path / "out", []
    folder_of = timeline_files.timeline_folder

    def folder(path, digest):
        made = folder_of(path, digest)
        return SimpleNamespace(check=lambda force: checked.append((path, digest, force)) or made.check(force=force))

    monkeypatch.setattr("asyncfl.analysis.timeline_files.timeline_folder", folder)
    result = CliRunner().invoke(app, ["timeline", str(file), "--out", str(out), "--set", "seeds=[4, 7]"])
    assert result.exit_code == 0, result.output
    ((timelines, caption, to, digest),) = written
    assert checked == [(out, digest, True)]
    assert (len(timelines), to) == (2, out)
    assert caption == "scenario.yaml, seed 4, 7: the clock alone, without training."
    out.mkdir()
    (out / "mine").write_text("")
    assert CliRunner().invoke(app, ["timeline", str(file), "--out", str(out)]).exit_code != 0


def told(capsys, **changes):
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
    return capsys.readouterr().out.splitlines()


def test_the_numbers_of_a_seed_are_told_with_their_units(capsys):
    lines = told(capsys)
    assert lines[0] == "seed 4: 3 versions in 1.5 min; all versions published"
    rows = [line.split() for line in lines[2:7]]
    assert rows[0] == ["time", "between", "versions", "1.5", "min", "500", "ms", "1", "s", "2", "min", "1", "h"]
    assert rows[1] == ["staleness", "in", "versions", *"–––––"]
    assert rows[2] == ["tasks", "of", "a", "client", "90", "0.5", "1", "120", "3600"]
    assert lines[7:] == [
        "exposure: L = 2; 5 clients overheard; 6 of 7 versions sent overheard on the downlink",
        "traffic: 1.5 kB up, 2 MB down, 8 messages retransmitted",
        "fates: lost up 2",
        "",
    ]


def test_what_only_some_seeds_have_is_told_of_those(capsys):
    joules = {"sum": 2e3, "compute": 1e3, "send": 500.0, "receive": 0.25, "idle": 0.0}
    joules["of_client"] = {"median": 40.0, "most": 90.0}
    more = {"cohorts_repeated": 1, "attackers_share_of_arrivals": 0.1234, "energy_j": joules, "fates": {}}
    repeated, attackers, energy, fates = told(capsys, **more)[9:13]
    assert repeated.startswith("cohorts repeated: 1; their uploads failed")
    assert attackers == "attackers: 12.3% of the updates that arrived"
    spent = "energy: 2 kJ (compute 1 kJ, send 500 J, receive 250 mJ, idle 0 J); of a client 40 J (median), 90 J (most)"
    assert energy == spent
    assert fates == "fates: no task was begun"
    assert "attackers: 0.0% of the updates that arrived" in told(capsys, attackers_share_of_arrivals=0.0)
