"""`asyncfl view`."""

import json
import webbrowser
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from asyncfl.api import execute, simulate
from asyncfl.base.instrument import RowCallback
from asyncfl.extras.view import MAGIC, page, title_of
from asyncfl.results import snapshots as under_way
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

_runs: list[Run] = []


@pytest.fixture
def view(program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Calls `asyncfl view` in an empty folder; returns status, output, errors."""
    monkeypatch.chdir(tmp_path)
    return partial(program, "view")


@pytest.fixture
def run(scenario: Scenario, tmp_path: Path) -> Path:
    """A run on disk, simulated once for all tests."""
    if not _runs:
        _runs.append(simulate(scenario))
    return _runs[0].save(tmp_path / "runs" / "abc")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_page_is_named_after_the_run_by_default(view: Any, run: Path, tmp_path: Path) -> None:
    status, out, err = view(run)
    assert (status, err) == (0, "")
    assert out.startswith("abc.html: ")
    assert (tmp_path / "abc.html").read_text(encoding="utf-8").startswith(MAGIC)
    assert view(run, run, "--seed", 0)[0] == 0
    assert view(run, "--out", "mine.html")[0] == 0
    assert files(tmp_path) == ["abc-abc.html", "abc.html", "mine.html", "runs"]


def test_open_shows_the_page_in_the_browser(view: Any, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    assert view(run, "--open")[0] == 0
    assert shown == [(Path.cwd() / "abc.html").as_uri()]


def test_runs_that_cannot_be_drawn_are_one_message_and_no_file(view: Any, run: Path, tmp_path: Path) -> None:
    def refused(*arguments: object) -> str:
        status, out, err = view(run, *arguments)
        assert (status, out, err.startswith("asyncfl: ")) == (2, "", True)
        assert files(tmp_path) == ["runs"]
        return str(err)

    assert "--seed: must be one of the run's (0), got 3" in refused("--seed", 3)
    assert "no task begins in the window" in refused("--since", 1e6)
    assert "holds no run: summary.json is missing" in refused(tmp_path / "runs")
    (run / ".asyncfl.json").unlink()
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"format": 2}))
    assert "holds a run of format 2, this program reads format" in refused()
    (run / "summary.json").write_text(json.dumps(summary))
    events = pq.read_table(run / "events.parquet")
    pq.write_table(events.slice(0, 0), run / "events.parquet")
    assert "has no rows, so there is nothing to show" in refused()
    (run / "events.parquet").unlink()
    assert "holds no run: events.parquet is missing" in refused()


def test_follow_updates_the_page_until_the_run_ends(
    view: Any, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_way, "EVERY_S", -1.0)
    monkeypatch.setattr(under_way, "SHARE", 1e9)
    folder = tmp_path / "runs" / "abc"
    texts: list[str] = []

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    def look(row: dict[str, Any]) -> None:
        # Ctrl-C stops the command at its first wait.
        assert view(folder, "--follow")[0] == 130
        if row["version"]:
            texts.append((tmp_path / "abc.html").read_text(encoding="utf-8"))

    with monkeypatch.context() as changed:
        changed.setattr("asyncfl.cli.view.time.sleep", interrupted)
        execute(scenario, folder, [RowCallback(look)])
    assert len(set(texts)) == 3
    status, out, err = view(folder, "--follow")
    assert (status, err) == (0, "")
    assert "the run is finished" in out
    whole = (tmp_path / "abc.html").read_text(encoding="utf-8")
    assert whole == page(Run.load(folder), title_of(Run.load(folder), folder))
    assert whole not in texts


def test_an_unfinished_run_needs_follow(view: Any, run: Path, tmp_path: Path) -> None:
    (run / ".partial").mkdir()
    (run / "summary.json").unlink()
    assert "holds an unfinished run; asyncfl view --follow draws it" in view(run)[2]
    assert "was interrupted before the first model version" in view(run, "--follow")[2]
    assert view(run, run, "--follow")[2] == "asyncfl: --follow: must be used with one run, got two\n"
    assert view(run, "--follow", "--since", 3)[2] == "asyncfl: --since: cannot be combined with --follow\n"
    assert files(tmp_path) == ["runs"]
