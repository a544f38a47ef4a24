import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asyncfl.api import execute
from asyncfl.base.errors import OutputError, RunError, ScenarioError
from asyncfl.base.instrument import Instrument
from asyncfl.client import Batch
from asyncfl.extras.audit.finished_run import FinishedRun, read_attacks, write_attacks
from asyncfl.learning.kernels import VARIABLE, available
from asyncfl.scenario import Scenario
from asyncfl.simulation.prepare import Federation

NOISED = {"kind": "nbafl", "epsilon": 50, "delta": 0.01}


@pytest.fixture
def run(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """A noised run of two seeds."""
    return execute(Scenario.read({**tiny, "privacy": NOISED, "seeds": 2}), tmp_path / "run")


class Recorder(Instrument):
    """Instrument that keeps versions, clients and norms."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int], np.ndarray[Any, Any]]] = []

    def collected(self, batch: Batch) -> None:
        self.seen.append((batch.version, [t.client for t in batch.assignments], batch.norms))


@pytest.mark.parametrize("kernels", available())
def test_a_run_is_repeated_with_the_kernels_of_the_first_time(
    kernels: str, tmp_path: Path, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repetition whose bytes differ raises an error."""
    monkeypatch.setenv(VARIABLE, kernels)
    network = {"kind": "lenet", "channels": [4, 6], "hidden": [8]}
    folder = execute(Scenario.read({**tiny, "model": network}), tmp_path / "run")
    monkeypatch.delenv(VARIABLE)
    finished = FinishedRun.load(folder)
    assert finished.run.timing["0"]["kernels"] == kernels
    with finished.compute_settings(0):
        assert finished.resimulate(0).kernels == kernels


def test_observing_a_run_does_not_change_it(run: Path) -> None:
    recorder = Recorder()
    again = FinishedRun.load(run).resimulate(1, [recorder])
    assert [(version, sorted(clients)) for version, clients, _ in recorder.seen] == [
        (n, [0, 1, 2, 3, 4]) for n in (0, 1, 2)
    ]
    norms = FinishedRun.load(run).run.rounds.query("seed == 1")["clip_norm"].to_numpy()[1:]
    assert np.array_equal([np.median(of_round) for _, _, of_round in recorder.seen], norms)
    assert again.seed == 1


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"protocol.time_limit_s": 0.9}, 2),
        ({"protocol.time_limit_s": 0.9, "evaluation.train_every": 2, "evaluation.test_every": 3}, 2),
        ({"evaluation": {"metrics": {"right": f"{__name__}:share_right"}, "clients_every": 1, "keep": "best"}}, 3),
    ],
)
def test_runs_that_ended_early_or_with_rare_evaluations_can_be_repeated(
    tmp_path: Path, tiny: dict[str, Any], changes: dict[str, Any], version: int
) -> None:
    folder = execute(Scenario.read(tiny).override(changes), tmp_path / "run")
    again = FinishedRun.load(folder).resimulate(0)
    assert again.rounds[-1]["version"] == version
    losses = FinishedRun.load(folder).run.rounds["train_loss"]
    assert again.rounds[-1]["train_loss"] == losses.iloc[-1]


def share_right(logits: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """Compute the accuracy, as a metric of the user's own."""
    return float((logits.argmax(axis=1) == labels).mean())


def test_a_repetition_that_differs_is_refused(run: Path) -> None:
    class Relabelling(Instrument):
        """Instrument that changes the run, which none should."""

        def begin_seed(self, federation: Federation) -> None:
            federation.path.data = replace(federation.data, labels=np.zeros_like(federation.data.labels))

    with pytest.raises(RunError, match=r"seed 0 differs: clip_norm of version 1 is .*, on disk .*again here"):
        FinishedRun.load(run).resimulate(0, [Relabelling()])


def test_missing_and_diverged_seeds_are_refused(run: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    finished = FinishedRun.load(run)
    assert finished.seeds() == (0, 1)
    assert finished.seeds(1) == (1,)
    with pytest.raises(ScenarioError, match=r"--seed: must be one of the run's \(0, 1\), got 7"):
        finished.seeds(7)
    overwhelmed = {"kind": "nbafl", "epsilon": 1e-38, "clip_norm": 20}
    wild = FinishedRun.load(execute(Scenario.read({**tiny, "privacy": overwhelmed}), tmp_path / "wild"))
    with pytest.raises(RunError, match="seed 0 has diverged, so nothing can be measured; no seed of this run"):
        wild.seeds()


def test_a_run_of_another_version_is_refused(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / ".asyncfl.json").unlink()
    (run / "summary.json").write_text(json.dumps({**summary, "hash": "0" * 16}))
    with pytest.raises(RunError, match="another version of this program"):
        FinishedRun.load(run)


def results(method: str, seed: int, value: float) -> pa.Table:
    return pa.table({"seed": [seed], "method": [method], method: [value]})


def test_new_results_replace_those_of_the_same_method_and_seed(tmp_path: Path) -> None:
    assert read_attacks(tmp_path) is None
    for method, seed, value in (("b", 1, 1.0), ("b", 0, 2.0), ("a", 0, 3.0), ("b", 1, 4.0)):
        write_attacks(tmp_path, results(method, seed, value))
    table = read_attacks(tmp_path)
    assert table is not None
    assert table.select(["method", "seed", "a", "b"]).to_pylist() == [
        {"method": "a", "seed": 0, "a": 3.0, "b": None},
        {"method": "b", "seed": 0, "a": None, "b": 2.0},
        {"method": "b", "seed": 1, "a": None, "b": 4.0},
    ]


def test_a_damaged_table_and_a_blocked_folder_are_errors(tmp_path: Path) -> None:
    path = write_attacks(tmp_path, results("a", 0, 1.0))
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(RunError, match="cannot be read as a table"):
        write_attacks(tmp_path, results("a", 0, 1.0))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "audit").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot make .*audit: (File exists|Not a directory)$"):
        write_attacks(tmp_path / "run", results("a", 0, 1.0))


def test_a_table_of_attacks_has_seeds_and_methods(tmp_path: Path) -> None:
    path = write_attacks(tmp_path, results("a", 0, 1.0))
    pq.write_table(pa.table({"seed": [1], "more": ["a"]}), path)
    with pytest.raises(RunError, match=r"attacks\.parquet is no table of attacks; remove it"):
        read_attacks(tmp_path)
