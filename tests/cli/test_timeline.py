import json
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from asyncfl.analysis import timeline_files
from asyncfl.cli import app


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
    assert "L may pass the number of versions" in " ".join(result.output.split())


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
    assert caption == "scenario.yaml, seed 4, 7: the clock alone, nothing was trained."
    out.mkdir()
    (out / "mine").write_text("")
    assert CliRunner().invoke(app, ["timeline", str(file), "--out", str(out)]).exit_code != 0
