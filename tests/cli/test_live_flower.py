"""`asyncfl live flower`: the folder of a Flower app."""

import tomllib
from pathlib import Path
from typing import Any

from asyncfl.live.flower.client import scenario_of
from asyncfl.scenario import Scenario


def test_the_app_holds_the_scenario_and_the_command_says_what_to_type(file: Path, tmp_path: Path, program: Any) -> None:
    app = tmp_path / "app"
    status, out, err = program("live", "flower", file, "--out", app, "--timeout-s", 90)
    assert (status, err) == (0, "")
    assert f"{app} written" in out
    assert "  flower-supernode --insecure --superlink HOST:8000 --node-config partition-id=N\n" in out
    assert f"  flwr run {app} NAME --stream\n" in out
    project = tomllib.loads((app / "pyproject.toml").read_text())
    flower = project["tool"]["flwr"]["app"]
    assert flower["components"] == {"serverapp": "server_app:app", "clientapp": "client_app:app"}
    assert flower["config"]["timeout-s"] == 90.0
    assert Path(flower["config"]["results"]).is_absolute()
    assert scenario_of(flower["config"]["scenario"]) == Scenario.load(file).settled()
    for name in ("server_app.py", "client_app.py"):
        compile((app / name).read_text(), name, "exec")


def test_the_app_of_another_scenario_is_replaced_only_with_force(file: Path, tmp_path: Path, program: Any) -> None:
    app = tmp_path / "app"
    assert program("live", "flower", file, "--out", app)[0] == 0
    assert program("live", "flower", file, "--out", app)[0] == 0
    before = (app / "pyproject.toml").read_text()
    other = ("live", "flower", file, "--out", app, "--set", "protocol.rounds=7")
    status, _, err = program(*other)
    assert (status, "holds a Flower app of another scenario" in err) == (2, True)
    assert (app / "pyproject.toml").read_text() == before
    assert program(*other, "--force")[0] == 0
    assert (app / "pyproject.toml").read_text() != before


def test_a_folder_of_the_user_is_left_alone_even_with_force(file: Path, tmp_path: Path, program: Any) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "pyproject.toml").write_text("mine")
    status, _, err = program("live", "flower", file, "--out", mine, "--force")
    assert (status, "was not made by this program" in err) == (2, True)
    assert [path.name for path in mine.iterdir()] == ["pyproject.toml"]


def test_settings_that_real_clients_cannot_carry_out_are_refused(file: Path, tmp_path: Path, program: Any) -> None:
    for field in ("compression", "download_compression"):
        compressed = f"{field}={{kind: quantised, bits: 8}}"
        status, _, err = program("live", "flower", file, "--out", tmp_path / "app", "--set", compressed)
        assert (status, f"asyncfl: {field}: must be none" in err) == (2, True)
    assert not (tmp_path / "app").exists()


def test_own_components_travel_with_the_app(tmp_path: Path, program: Any) -> None:
    examples = Path(__file__).parents[2] / "examples"
    scenario = (examples / "my_scenario.yaml", "--set", "threats=null")
    assert program("live", "flower", *scenario, "--out", tmp_path / "app")[0] == 0
    assert (tmp_path / "app" / "my_components.py").read_bytes() == (examples / "my_components.py").read_bytes()
