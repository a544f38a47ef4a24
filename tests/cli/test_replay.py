"""`asyncfl replay`."""

import json
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.scenario import Scenario


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A recorded asynchronous run of two seeds."""
    tiny["protocol"] = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}
    return execute(Scenario.read({**tiny, "evaluation": {"record": "digests"}, "seeds": 2}), tmp_path / "run")


def edit(run: Path, old: str, new: str) -> None:
    messages = run / "messages.jsonl"
    text = messages.read_text()
    assert old in text
    messages.write_text(text.replace(old, new, 1))


def test_the_decisions_of_a_run_are_repeated(run: Path, program: Any) -> None:
    status, out, _ = program("replay", run)
    assert status == 0
    printed = " ".join(out.split())
    assert printed.count("are the same as recorded; not compared: models of versions above 0") == 2
    status, out, _ = program("replay", run, "--train", "--seed", 1, "--json")
    found = json.loads(out)
    assert (status, found["same"]) == (0, True)
    assert [(one["seed"], one["unchecked"]) for one in found["seeds"]] == [(1, [])]
    assert found["seeds"][0]["actions"] > 10


def test_the_first_difference_is_printed_with_status_1(run: Path, program: Any) -> None:
    edit(run, '"fate":"aggregated","staleness":0', '"fate":"aggregated","staleness":2')
    status, out, _ = program("replay", run)
    assert status == 1
    printed = " ".join(out.split())
    assert "seed 0: first difference in line" in printed
    assert "staleness=2" in printed
    assert "seed 1: all" in printed
    found = json.loads(program("replay", run, "--json")[1])
    assert (found["same"], "difference" in found["seeds"][0]) == (False, True)


def test_runs_that_cannot_be_replayed_are_refused(run: Path, program: Any, refused: Any) -> None:
    assert "--seed: must be one of the run's (0, 1), got 7" in refused("replay", run, "--seed", 7)
    edit(run, '{"answers"', '{"anwers"')
    assert program("replay", run)[0] == 2, "the recording is damaged"
    (run / "messages.jsonl").unlink()
    assert "evaluation.record=digests" in refused("replay", run)
    refused("replay", run.parent)
