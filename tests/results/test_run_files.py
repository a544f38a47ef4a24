"""Runs on disk that somebody or something has damaged: one message that names the file."""

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asyncfl.api import execute, simulate
from asyncfl.base.errors import AsyncflError, OutputError, RunError
from asyncfl.base.files.own_folder import MARK, is_worked_on
from asyncfl.base.tables import FORMER
from asyncfl.protocol.recording import Recording
from asyncfl.results.run_files import NEEDED, conditions_of, read_table
from asyncfl.results.storage import ASKED_FOR, TABLES, Run, RunFolder
from asyncfl.scenario import Scenario

SEED: dict[str, Any] = {"versions": 2, "virtual_s": 1.0, "stopped": "", "notes": [], "fates": {}, "tasks": {}}
FILES = ("summary.json", "timing.json", *(f"{name}.parquet" for name in TABLES))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of two rounds, as it should be."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    simulate(
        Scenario.read(
            {
                "data": {"clients": 3, "samples_per_client": 10, "source": "embedded", "test_samples": 10},
                "model": {"kind": "mlp", "hidden": [4]},
                "protocol": {"kind": "sync", "rounds": 2},
                "privacy": {"kind": "nbafl", "epsilon": 5.0, "clip_norm": 1.0},
                "evaluation": {"record": "digests"},
            }
        )
    ).save(folder)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def test_a_run_has_all_required_tables(whole: Path) -> None:
    assert set(NEEDED) == {*TABLES, *ASKED_FOR}
    assert {name: read_table(whole, name).num_rows > 0 for name in TABLES} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x93PAR1 nothing of the kind \xff\xfe"),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["cut", "empty", "other", "folder"],
)
def test_a_file_that_is_cut_empty_or_something_else_is_named(
    run: Path, name: str, damage: Callable[[Path], object]
) -> None:
    damage(run / name)
    with pytest.raises(RunError, match=rf"{name} cannot be read as"):
        Run.load(run)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(RunError, match=rf"holds no run: {name} is missing"):
        Run.load(run)


def test_a_file_in_place_of_a_run_is_no_damaged_run(tmp_path: Path) -> None:
    (tmp_path / "run.html").write_text("a page")
    with pytest.raises(RunError, match=r"run\.html holds no run: it is no folder$"):
        Run.load(tmp_path / "run.html")


@pytest.mark.parametrize("name", TABLES)
def test_a_column_that_is_missing_or_of_another_type_is_named(run: Path, name: str) -> None:
    path = run / f"{name}.parquet"
    table = pq.read_table(path)
    column = list(NEEDED[name])[-1]
    pq.write_table(table.drop([column]), path)
    with pytest.raises(
        RunError, match=rf"is no table of {name}: column {column} is missing; its columns are seed|time"
    ):
        Run.load(run)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array([True] * len(table))), path)
    with pytest.raises(RunError, match=rf"column {column} must hold .*, got bool"):
        Run.load(run)
    pq.write_table(table.set_column(at, column, pa.nulls(len(table), table[column].type)), path)
    with pytest.raises(RunError, match=rf"column {column} has gaps"):
        Run.load(run)


def test_a_column_that_an_earlier_version_did_not_write_is_empty(run: Path) -> None:
    for name, lacking in (("events", ["attempt", "weight", "detail"]), ("rounds", ["recall", "bytes_up"])):
        path = run / f"{name}.parquet"
        pq.write_table(pq.read_table(path).drop(lacking), path)
    (run / MARK).unlink()  # the mark would tell that the files were edited
    read = Run.load(run)
    events = read.events[["attempt", "weight", "detail"]].drop_duplicates()
    assert events.to_dict("records") == [{"attempt": -1, "weight": pytest.approx(math.nan, nan_ok=True), "detail": ""}]
    assert read.rounds["recall"].isna().all()
    assert read.rounds["bytes_up"].isna().all()


def test_an_unknown_column_is_kept_and_a_lacking_one_of_clients_has_its_default(run: Path) -> None:
    path = run / "clients.parquet"
    table = pq.read_table(path).drop(["banned", "train_loss"])
    pq.write_table(table.append_column("colour", pa.array(["red"] * len(table))), path)
    read = read_table(run, "clients").to_pydict()
    assert (set(read["colour"]), set(read["banned"])) == ({"red"}, {False})
    assert all(map(math.isnan, read["train_loss"]))
    assert "domain" not in read


def test_a_column_that_an_earlier_version_called_otherwise_has_its_name_of_today(run: Path) -> None:
    for name, names in FORMER.items():
        table = pq.read_table(path := run / f"{name}.parquet")
        pq.write_table(table.rename_columns({new: old for old, new in names.items()}), path)
        read = read_table(run, name)
        assert read.column_names == table.column_names
        assert all(read[new].equals(table[new]) for new in names.values())
    (run / MARK).unlink()
    assert "epsilon_naive_max" in Run.load(run).rounds


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ([], "must hold a mapping"),
        ({}, "has no seeds"),
        ({"seeds": {"0": 3}}, "says nothing of seed '0'"),
        ({"seeds": {"zero": {}}}, "says nothing of seed 'zero'"),
        ({"seeds": {"0": {**SEED, "virtual_s": "x"}}}, "virtual_s of seed 0"),
        ({"seeds": {"0": {**SEED, "fates": [1]}}}, "fates of seed 0"),
        ({"seeds": {"0": {**SEED, "tasks": {"begun": "x"}}}}, "tasks of seed 0"),
        ({"seeds": {"0": {**SEED, "tasks": {"begun": 10**30}}}}, "tasks of seed 0"),
        ({"seeds": {"0": {**SEED, "versions": 10**30}}}, "versions of seed 0"),
        ({"seeds": {"0": SEED}, "fates": [1, 2]}, "says nothing sound of fates"),
        ({"seeds": {"7": SEED}}, "no row of seed 7"),
    ],
)
def test_a_summary_that_says_nothing_is_damaged(run: Path, summary: Any, said: str) -> None:
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match=said):
        Run.load(run)


@pytest.mark.parametrize("name", ["summary.json", "timing.json", "rounds.parquet", "scenario.yaml"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_refused_and_not_waited_for(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    with pytest.raises(AsyncflError, match=rf"{name}.* cannot be read.*: it is no ordinary file"):
        Run.load(run)
    (run / name).unlink()
    (run / name).symlink_to("/dev/zero")
    with pytest.raises(AsyncflError, match=rf"{name}.* cannot be read.*: it is no ordinary file"):
        Run.load(run)


@pytest.mark.parametrize("name", ["messages.jsonl", "disproved-0.txt", "models/1.safetensors", ".partial/lock"])
def test_a_pipe_beside_the_tables_is_not_waited_for(run: Path, name: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    loaded = Run.load(run)
    assert (loaded.files, loaded.models) == ({}, {})
    if name == "messages.jsonl":
        with pytest.raises(RunError, match="it is no ordinary file"):
            Recording.read(run / name)
    is_worked_on(run)
    with contextlib.suppress(OutputError):
        loaded.save(run)


def test_a_link_to_itself_is_refused(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "summary.json").symlink_to("summary.json")
    with pytest.raises(RunError, match="Too many levels of symbolic links"):
        Run.load(run)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"program": "asyncfl", "files": [1]}', "{}", ""])
def test_a_damaged_mark_makes_a_folder_that_is_not_written_to(run: Path, text: str) -> None:
    (run / ".asyncfl.json").write_text(text)
    with pytest.raises(OutputError, match="was not made by this program"):
        RunFolder(run, Run.load(run).scenario).check(force=True)


@pytest.mark.parametrize("threads", [0, -1, 1e7, 10**30, 2.5, True, "2", [1], float("inf")])
def test_a_number_of_threads_that_no_machine_has_is_refused(run: Path, threads: object) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary["learner"]["threads"] = threads
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RunError, match=r"with how many threads the run was computed, 1\.\.1024"):
        conditions_of(run, 0)


def test_a_run_that_names_no_kernels_is_one_of_torch(run: Path) -> None:
    timing = json.loads((run / "timing.json").read_text())
    assert timing["0"].pop("kernels") == "torch"  # an MLP has no convolutions
    (run / "timing.json").write_text(json.dumps(timing | {"1": {"gemm": "default", "kernels": "avx2"}}))
    assert [conditions_of(run, seed).kernels for seed in (0, 1)] == ["torch", "avx2"]


@pytest.mark.parametrize("name", ["ledger.parquet", "scenario.yaml", "summary.json"])
def test_an_edited_file_is_seen(run: Path, name: str) -> None:
    path = run / name
    if name == "ledger.parquet":
        ledger = pq.read_table(path)
        claimed = ledger.column_names.index("claimed_epsilon")
        pq.write_table(ledger.set_column(claimed, "claimed_epsilon", pa.array([0.1] * len(ledger))), path)
    else:
        path.write_text(path.read_text().replace("clients: 3", "clients: 4") + " \n")
    with pytest.raises(RunError, match=rf"{name} was changed after the run was written: its SHA-256 differs"):
        Run.load(run)
    (run / ".asyncfl.json").unlink()
    Run.load(run)


def test_what_an_interrupt_left_beside_a_whole_run_is_removed(run: Path) -> None:
    left = run / ".partial" / "0123456789abcdef" / "seed-0"
    left.mkdir(parents=True)
    (left / "summary.json").touch()
    execute(Run.load(run).scenario, run)
    assert not (run / ".partial").exists()
    assert Run.load(run)
