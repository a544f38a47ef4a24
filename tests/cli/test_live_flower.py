"""`asyncfl live flower`: the folder of a Flower app."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.cli import main
from asyncfl.live.flower.client import scenario_of
from asyncfl.scenario import Scenario


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    monkeypatch.setattr(sys, "argv", ["asyncfl", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    return 0


@pytest.fixture
def scenario(tiny: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny))
    return path


def test_it_writes_an_app_that_holds_the_scenario_and_says_what_to_type(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app"
    assert call(monkeypatch, "live", "flower", scenario, "--out", app, "--timeout-s", 90) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{app} written",
        "For each client N (0..4), where its SuperNode is to run:",
        "  flower-supernode --insecure --superlink HOST:8000 --node-config partition-id=N",
        "Then, NAME being the connection to the SuperLink in Flower's configuration:",
        f"  flwr run {app} NAME --stream",
    ]
    project = tomllib.loads((app / "pyproject.toml").read_text())
    flower = project["tool"]["flwr"]["app"]
    assert flower["components"] == {"serverapp": "server_app:app", "clientapp": "client_app:app"}
    assert flower["config"]["timeout-s"] == 90.0
    assert Path(flower["config"]["results"]).is_absolute()
    assert scenario_of(flower["config"]["scenario"]) == Scenario.load(scenario).settled()
    for name in ("server_app.py", "client_app.py"):
        compile((app / name).read_text(), name, "exec")


def test_an_app_is_replaced_by_that_of_another_scenario_only_when_asked_to(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app"
    assert call(monkeypatch, "live", "flower", scenario, "--out", app) == 0
    assert call(monkeypatch, "live", "flower", scenario, "--out", app) == 0
    before = (app / "pyproject.toml").read_text()
    other = ("live", "flower", scenario, "--out", app, "--set", "protocol.rounds=7")
    capsys.readouterr()
    assert call(monkeypatch, *other) == 2
    assert "holds a Flower app of another scenario" in capsys.readouterr().err
    assert (app / "pyproject.toml").read_text() == before
    assert call(monkeypatch, *other, "--force") == 0
    assert (app / "pyproject.toml").read_text() != before


def test_a_folder_of_somebody_elses_is_left_alone(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "pyproject.toml").write_text("mine")
    assert call(monkeypatch, "live", "flower", scenario, "--out", mine, "--force") == 2
    assert "was not made by this program" in capsys.readouterr().err
    assert [path.name for path in mine.iterdir()] == ["pyproject.toml"]


def test_what_no_real_client_can_do_is_refused_before_anything_is_written(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tmp_path / "app"
    for field in ("compression", "download_compression"):
        compressed = f"{field}={{kind: quantised, bits: 8}}"
        assert call(monkeypatch, "live", "flower", scenario, "--out", app, "--set", compressed) == 2
        assert f"asyncfl: {field}: must be none" in capsys.readouterr().err
        assert not app.exists()


def test_components_of_ones_own_travel_with_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    scenario = root / "examples" / "my_scenario.yaml"
    attack = "threats=null"
    assert call(monkeypatch, "live", "flower", scenario, "--out", tmp_path / "app", "--set", attack) == 0
    assert (tmp_path / "app" / "my_components.py").read_bytes() == (root / "examples/my_components.py").read_bytes()
