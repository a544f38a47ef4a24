from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.base.errors import OutputError, RunError
from asyncfl.extras.view import Window, page, title_of, write
from asyncfl.extras.view.packing import Packing, pack_tables
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from tests.extras.view.test_packing import read_back


def header_of(text: str) -> tuple[Any, Any]:
    """What a page carries."""
    data = text.split('<script id="data" type="application/octet-stream">')[1].split("</script>")[0]
    return read_back(data)


def test_a_page_is_the_same_bytes_each_time_and_names_no_address(busy: Run) -> None:
    text = page(busy, "run")
    assert text == page(busy, "run")
    assert "http:" not in text
    assert "https:" not in text
    assert "src=" not in text


def test_tables_say_what_their_columns_mean_and_leave_out_those_without_values(busy: Run) -> None:
    header, numbers = header_of(page(busy, "run"))
    tables = {table["name"]: table for table in header["runs"][0]["tables"]}
    assert list(tables) == ["summary", "rounds", "clients", "ledger"]
    assert tables["ledger"]["about"][: len(busy.summary["privacy"])] == busy.summary["privacy"]
    rounds = {column["name"]: column for column in tables["rounds"]["columns"]}
    assert rounds["time_s"]["unit"] == "s"
    assert rounds["test_accuracy"]["meaning"].startswith("Share of the test set")
    np.testing.assert_array_equal(numbers(rounds["test_accuracy"]), busy.rounds["test_accuracy"])
    assert "attack_success" not in rounds
    assert "attack_success" in tables["rounds"]["about"][0]


def test_a_window_shows_the_tasks_that_begin_in_it(busy: Run) -> None:
    text = page(busy, "run", window=Window(since_s=1.0, until_s=3.0, seed=1))
    (seed,) = header_of(text)[0]["runs"][0]["seeds"]
    wanted = Tasks.of(busy.tables["tasks"]).select(seed=1, since_s=1.0, until_s=3.0)
    assert (seed["seed"], seed["tasks"]["task"]["n"]) == (1, len(wanted))
    with pytest.raises(RunError, match="no task begins in the window; they begin from 0 s to"):
        page(busy, "run", window=Window(since_s=1e9))


def test_names_from_outside_stand_in_no_html(busy: Run) -> None:
    bad = "</script><script>alert(1)</script>"
    summary = busy.summary | {"notes": [bad], "privacy": [bad], "data": {"provenance": bad}}
    text = page(replace(busy, summary=summary), bad)
    assert "alert" not in text.replace("&lt;script&gt;alert(1)&lt;/script&gt; · asyncfl</title>", "")
    assert header_of(text)[0]["runs"][0]["name"] == bad


def test_two_runs_are_compared_by_field_and_first_difference(busy: Run, other: Run) -> None:
    compared = header_of(page(busy, "one", other=(other, "other")))[0]["compared"]
    fields = {name: values for name, *values in compared["fields"]}
    assert fields["world.dropout"] == ["0.1", "0.5"]
    assert [seed["said"][0].startswith("first different event: number ") for seed in compared["seeds"]] == [True, True]
    assert compared["seeds"][0]["events"][0][:3] == ["run", "time_s", "kind"]
    same = header_of(page(busy, "one", other=(busy, "again")))[0]["compared"]
    assert (same["same"], same["fields"], same["seeds"][0]["first"]) == (True, [], None)


def test_only_a_page_of_a_run_is_replaced(busy: Run, tmp_path: Path) -> None:
    text, path = page(busy, "run"), tmp_path / "run.html"
    write(text, path)
    write(text, path)
    assert path.read_text(encoding="utf-8") == text
    path.write_text("<!doctype html>\n<p>mine")
    with pytest.raises(OutputError, match="a file of another kind"):
        write(text, path)
    assert path.read_text() == "<!doctype html>\n<p>mine"
    assert [one.name for one in tmp_path.iterdir()] == ["run.html"]


ROUNDS = {"seed": [3, 3, 3, 3], "version": [0, 1, 2, 3], "time_s": [0.0, 1.0, 2.0, 3.0]}


def shown(judged: list[int] | None, **summary: Any) -> list[tuple[str, int, list[str]]]:
    rounds = pa.table({**ROUNDS, **({} if judged is None else {"judged": judged, "detector_rank": [1.0] * 4})})
    found = pack_tables({"rounds": rounds}, summary, Packing())
    return [(one["name"], one["rows"], [column["name"] for column in one["columns"]]) for one in found]


def test_a_detector_has_a_row_for_each_judged_version() -> None:
    rounds = ("rounds", 4, ["seed", "version", "time_s"])
    assert shown(None) == [rounds]
    assert shown([0, 0, 0, 0]) == [rounds]
    columns = ["seed", "version", "time_s", "judged", "detector_rank"]
    assert shown([0, 1, 0, 5]) == [rounds, ("detector", 2, columns)]


def test_a_title_says_what_a_run_is_and_names_its_folder(busy: Run, scenario: Scenario, tmp_path: Path) -> None:
    assert title_of(busy, tmp_path / "baseline").endswith(", label_flip, local_gaussian (baseline)")
    plain = Run(scenario, {}, {})
    kind, names = scenario.protocol.kind, ", ".join(scenario.data.names)
    assert title_of(plain, tmp_path / "a" / "b") == f"{kind} on {names} (b)"
