"""`asyncfl run`: what it prints, and what it writes to the user's disk."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl import api as api_module
from asyncfl.cli.options import read_assignments
from asyncfl.learning.kernels import TORCH, VARIABLE, available
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario


@pytest.fixture
def run(file: Path, program: Any) -> Any:
    """Calls `asyncfl run` on the tiny scenario; returns its status and all that it printed."""

    def call(*arguments: object) -> tuple[object, str]:
        status, out, err = program("run", file, "--quiet", *arguments)
        return status, out + err

    return call


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "one_seed", lambda *arguments: pytest.fail("trained before it was refused"))


# --- what it prints ------------------------------------------------------------------------------------------------


def test_data_result_folder_and_duration_are_printed(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100.0, 102.54, 200.0, 201.0])
    monkeypatch.setattr("asyncfl.cli.run.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    out = tmp_path / "run"
    command = ("--out", out, "--set", "protocol.rounds=2", "--set", "seeds=2")
    status, printed = run(*command)
    assert status == 0
    assert printed.startswith("data: mnist (embedded)\n")
    assert printed.count("all versions published") == 2
    assert printed.endswith(f"{out} written in 2.5 s\n")
    assert yaml.safe_load((out / "scenario.yaml").read_text())["protocol"]["rounds"] == 2
    assert run(*command)[1].endswith(f"{out} exists already\n")


@pytest.mark.parametrize("kernels", available())
def test_compiled_kernels_are_printed(kernels: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, kernels)
    network = ("--set", "model={kind: lenet, channels: [4, 6], hidden: [8]}", "--set", "protocol.rounds=1")
    printed = run("--out", tmp_path / "run", *network)[1]
    line = f"convolutions behind pooling: compiled kernels ({kernels})\n"
    assert (line in printed) == (kernels != TORCH)


def test_bans_are_printed_where_the_server_bans(run: Any, tmp_path: Path) -> None:
    longest = ("--set", "threats={attack: {kind: wrong_length}, attackers: 1}", "--set", "protocol.rounds=3")
    assert "banned" not in run("--out", tmp_path / "none", *longest)[1]
    printed = run("--out", tmp_path / "bans", *longest, "--set", "defence.strikes.threshold=1")[1]
    honest = int(re.search(r"seed 0: 0 of (\d+) honest clients and 1 of 1 attackers banned\n", printed)[1])
    alone = run("--out", tmp_path / "alone", "--set", "defence.strikes.threshold=1", "--set", "protocol.rounds=1")[1]
    assert f"seed 0: 0 of {honest + 1} honest clients banned\n" in alone


def test_a_replaced_data_set_is_named(
    program: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    for name, shape in (("mnist", (28, 28)), ("svhn", (32, 32, 3)), ("street_digits", (32, 32, 3))):
        images, labels = np.zeros((20, *shape), np.uint8), (np.arange(20) % 10).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    tiny["data"] = {"domains": ["mnist", "svhn"], "clients": 2, "samples_per_client": 10, "source": "real"}
    tiny["protocol"]["rounds"] = 1
    (tmp_path / "domains.yaml").write_text(yaml.safe_dump(tiny))
    status, out, _ = program("run", tmp_path / "domains.yaml", "--out", tmp_path / "run", "--quiet")
    assert status == 0
    assert out.startswith("data: mnist, street_digits in place of svhn (real)\n")


# --- wrong input -----------------------------------------------------------------------------------------------------


def test_spaces_around_a_name_do_not_matter() -> None:
    assert read_assignments([" protocol.rounds =3"]) == {"protocol.rounds": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "protocol.rounds"], "--set: must be field=value, got 'protocol.rounds'"),
        (["--set", "=3"], "--set: must be field=value, got '=3'"),
        (["--set", "protocol.rouns=3"], "protocol.rouns: is no field of kind sync; did you mean rounds?"),
        (["--set", "protocol.participants=9"], "must be 1..clients (5), got 9"),
        (["--set", "lr=.1"], "lr: is no field; did you mean training.lr?"),
        (["--set", "momentum=.1"], "momentum: is no field; did you mean training.momentum or algorithm.momentum?"),
        (["--set", "data.alpha=.1"], "data.alpha: is no field; did you mean data.partition.alpha?"),
        (["--set", "training.lrate=.1"], "training.lrate: is no field; did you mean lr?"),
        (["--set", "kind=sync"], "kind: is no field; fields here are"),
    ],
)
def test_wrong_assignments_are_one_message(run: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    status, printed = run(*arguments)
    assert (status, message in printed, "Traceback" in printed) == (2, True, False)
    assert not (tmp_path / "results").exists()


def test_all_faults_of_a_file_are_named(refused: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("{protocol: {kind: sync, rounds: 0}, training: {lrr: 1}}")
    message = refused("run", path)
    assert f"{path}: 2 faults" in message
    assert "training.lrr: is no field; did you mean lr?" in message


# --- the folder ------------------------------------------------------------------------------------------------------


def test_the_default_folder_is_named_after_the_hash(run: Any, tmp_path: Path) -> None:
    assert run()[0] == 0
    (folder,) = (tmp_path / "results" / "runs").iterdir()
    assert len(folder.name) == 16


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_of_the_user_is_refused_before_training(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: tuple[str, ...]
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "thesis.tex").write_text("precious")
    monkeypatch.chdir(folder)
    for out in (folder, ".", "../d"):
        status, printed = run("--out", out, *force)
        assert status == 2
        assert f"cannot write {out}: it was not made by this program and is not empty (it holds thesis.tex)" in printed
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"thesis.tex": "precious"}


@pytest.mark.usefixtures("no_training")
def test_an_unwritable_folder_is_refused_before_training(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "r", "/proc/asyncfl/r", "/dev/null"):
        status, printed = run("--out", out)
        assert (status, "cannot write" in printed, "Traceback" in printed) == (2, True, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "scenario.yaml"]


def test_a_run_of_another_scenario_is_replaced_only_with_force(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "r"
    assert run("--out", out)[0] == 0
    (out / "thesis.tex").write_text("precious")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    other = ("--out", out, "--set", "protocol.rounds=2", "--set", "privacy={kind: nbafl, epsilon: 60}")
    status, printed = run(*other)
    assert status == 2
    assert "it holds a run of another scenario (protocol.rounds is 3 there and 2 here; " in printed
    assert 'privacy.kind is "none" there and "nbafl" here)' in printed
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    status, printed = run(*other, "--force")
    assert (status, "written in" in printed) == (0, True)
    assert Run.load(out).rounds["version"].max() == 2
    assert (out / "thesis.tex").read_text() == "precious"
    assert "exists already" in run(*other)[1]


def test_nothing_else_is_written(run: Any, tmp_path: Path) -> None:
    assert run("--out", tmp_path / "a" / "b" / "r", "--set", "seeds=2")[0] == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["r"]
    assert not (tmp_path / "a" / "b" / "r" / ".partial").exists()


def test_an_incomplete_run_is_computed_again(run: Any, tmp_path: Path) -> None:
    run("--out", tmp_path / "r")
    (tmp_path / "r" / "rounds.parquet").unlink()
    assert "written in" in run("--out", tmp_path / "r")[1]
    assert "written in" in run("--out", tmp_path / "r", "--force")[1]


def test_an_interrupted_run_keeps_its_finished_seeds(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = api_module.one_seed

    def interrupted(description: Scenario, seed: int, progress: Any, *more: Any) -> Run:
        if seed == 1:
            raise KeyboardInterrupt
        return original(description, seed, progress, *more)

    with monkeypatch.context() as patched:
        patched.setattr(api_module, "one_seed", interrupted)
        status, printed = run("--out", tmp_path / "r", "--set", "seeds=2")
        assert (status, "interrupted; 1 of 2 seeds are kept; repeat the command" in printed) == (130, True)
    status, printed = run("--out", tmp_path / "r")
    assert status == 2
    assert "it holds an unfinished run of another scenario (seeds is [0, 1] there and [0] here)" in printed
    assert run("--out", tmp_path / "r", "--set", "seeds=2")[0] == 0


@pytest.mark.parametrize(
    ("fields", "repair"),
    [
        ({"training": {"lr": -1}}, "training.lr=0.1"),
        ({"data": {"dataset": {"kind": "npz", "path": "gone.npz"}, "clients": 5}}, "data.dataset=mnist"),
        ({"threats": {"attack": {"kind": "sign_flip"}, "attackers": 99}}, "threats.attackers=1"),
    ],
)
def test_an_assignment_repairs_what_is_wrong_in_the_file(
    tiny: dict[str, Any], tmp_path: Path, program: Any, fields: dict[str, Any], repair: str
) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps({**tiny, **fields}))
    run = ("run", tmp_path / "s.yaml", "--out", tmp_path / "r")
    assert program(*run)[0] == 2
    status, _, told = program(*run, "--set", "data.samples_per_client=10", "--set", repair)
    assert (status, told) == (0, "")


def test_another_kind_of_protocol_keeps_the_fields_that_it_shares(
    tiny: dict[str, Any], tmp_path: Path, program: Any
) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps(tiny))
    kinds = ("--set", "protocol.kind=sync,fedbuff,fedasync", "--set", "data.clients=20")
    arguments = (*kinds, "--out", tmp_path / "runs", "--jobs", 1, "--json")
    status, told, _ = program("sweep", tmp_path / "s.yaml", *arguments)
    assert status == 0
    found = [yaml.safe_load((Path(one["folder"]) / "scenario.yaml").read_text()) for one in json.loads(told)["runs"]]
    rounds = [(one["protocol"]["kind"], one["protocol"]["rounds"]) for one in found]
    assert rounds == [("sync", 3), ("fedbuff", 3), ("fedasync", 3)]
