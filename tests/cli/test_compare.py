"""`asyncfl compare`: fields that differ, names of runs, and differences of final values."""

import json
import shutil
from pathlib import Path
from typing import Any

from asyncfl.api import simulate
from asyncfl.scenario import Scenario


def test_a_column_that_one_run_lacks_is_not_compared(tiny: dict[str, Any], tmp_path: Path, program: Any) -> None:
    short = Scenario.read({**tiny, "protocol": {"kind": "sync", "rounds": 1}})
    less = simulate(short).save(tmp_path / "less")
    more = simulate(short.override({"evaluation.clients_every": 1})).save(tmp_path / "more")
    column = "client_loss_worst_decile"
    for runs, there in (((less, more), [False, True]), ((more, less), [True, False])):
        status, out, _ = program("compare", *runs, "--json")
        found = json.loads(out)["final"]
        assert status == 0
        assert [one is not None for one in found[column]["mean"]] == there
        assert found[column]["difference"] == [None]
        assert found["train_loss"]["difference"][0]["mean"] == 0
        lines = [line.split() for line in program("compare", *runs)[1].splitlines()]
        (row,) = [line for line in lines if line[:1] == [column]]
        assert row[-1] == "—"
        assert row.count("—") == 2


def test_equal_scenarios_with_other_data_are_noted(tiny: dict[str, Any], tmp_path: Path, program: Any) -> None:
    run = simulate(Scenario.read({**tiny, "protocol": {"kind": "sync", "rounds": 1}})).save(tmp_path / "run")
    same, other = (
        "The scenarios are the same in all fields.\n",
        "Their data, profiles, initial models or own components differ.",
    )
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    out = program("compare", run, copy)[1]
    assert out.startswith(same)
    assert other not in out
    found = json.loads((copy / "summary.json").read_text())
    (copy / ".asyncfl.json").unlink()
    (copy / "summary.json").write_text(json.dumps(found | {"hash": "0" * 16}))
    assert program("compare", run, copy)[1].startswith(f"{same}{other}\n")
