import shutil
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.base.errors import RunError
from asyncfl.base.instrument import RowCallback
from asyncfl.extras.view import page
from asyncfl.extras.view.run_state import RunState, run_state
from asyncfl.results import snapshots as under_way
from asyncfl.scenario import Scenario


@pytest.fixture(autouse=True)
def each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run writes each version down, however fast they come."""
    monkeypatch.setattr(under_way, "EVERY_S", -1.0)
    monkeypatch.setattr(under_way, "SHARE", 1e9)


def test_a_run_stands_where_its_seeds_are(scenario: Scenario, tmp_path: Path) -> None:
    seen: list[RunState] = []
    folder = tmp_path / "run"
    execute(scenario.override({"seeds": 2}), folder, [RowCallback(lambda row: seen.append(run_state(folder)))])
    assert [one.description for one in seen] == [
        "",
        *(
            f"This run is under way: 0 of 2 seeds are finished, seed 0 is at version {version} of 3."
            for version in range(3)
        ),
        "This run is under way: 1 of 2 seeds are finished.",
        *(
            f"This run is under way: 1 of 2 seeds are finished, seed 1 is at version {version} of 3."
            for version in range(3)
        ),
    ]
    assert [one.run is None for one in seen] == [True] + [False] * 7
    last = seen[-1].run
    assert last is not None
    assert last.tables["rounds"].group_by("seed").aggregate([("version", "max")]).to_pydict() == {
        "seed": [0, 1],
        "version_max": [3, 2],
    }
    assert list(last.summary["seeds"]) == ["0"]
    assert page(last, "run", going=seen[-1].description, reload_s=3) != page(last, "run")
    over = run_state(folder)
    assert (over.description, over.going) == ("", False)


def test_a_run_that_replaces_another_is_followed_and_not_the_other(scenario: Scenario, tmp_path: Path) -> None:
    seen: list[RunState] = []
    execute(scenario, tmp_path / "run")
    execute(scenario, tmp_path / "run", [RowCallback(lambda row: seen.append(run_state(tmp_path / "run")))], force=True)
    assert [one.going for one in seen] == [True] * 4
    assert [one.run is None for one in seen] == [True, False, False, False]


def test_a_killed_run_is_shown_as_interrupted(scenario: Scenario, tmp_path: Path) -> None:
    def look(row: dict[str, Any]) -> None:
        if row["version"] == 2:
            shutil.copytree(tmp_path / "run", tmp_path / "killed")

    execute(scenario, tmp_path / "run", [RowCallback(look)])
    found = run_state(tmp_path / "killed")
    assert found.description == "This run was interrupted: 0 of 1 seeds are finished, seed 0 is at version 1 of 3."
    assert found.run is not None


def test_an_empty_folder_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run, and none is under way there"):
        run_state(tmp_path)
