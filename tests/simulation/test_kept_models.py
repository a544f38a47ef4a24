"""Which models a run keeps; they come back as modules, and other runs start from them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from asyncfl import DataError, OutputError, Run, RunError, Scenario, execute, simulate
from asyncfl.base.streams import Streams
from asyncfl.cli import app
from asyncfl.data import FederatedData
from asyncfl.measurements import Evaluation
from asyncfl.simulation.kept_models import KeptModels

NAN = math.nan


def offered(keep: Any, rows: list[tuple[float, float, bool]], rounds: int = 9) -> list[int]:
    kept = KeptModels(Evaluation(keep=keep), rounds)
    for version, (accuracy, loss, diverged) in enumerate(rows):
        model = np.full(3, version, np.float32)
        kept.offer(version, model, {"test_accuracy": accuracy, "test_loss": loss, "diverged": diverged})
        model[:] = -1
    assert all(model.tolist() == [version] * 3 for version, model in kept.models.items())
    return list(kept.models)


@pytest.mark.parametrize(
    ("keep", "rows", "versions"),
    [
        ("none", [(0.5, 1.0, False)], []),
        ("last", [(0.5, 1.0, False), (0.1, 9.0, False), (NAN, NAN, True)], [1]),
        ("best", [(0.5, 1.0, False), (0.7, 2.0, False), (0.6, 0.1, False)], [1]),
        ("best", [(0.5, 2.0, False), (0.5, 1.0, False), (0.5, 1.0, False)], [1]),
        ("best", [(0.5, 2.0, False), (NAN, NAN, False), (0.9, 1.0, True)], [0]),
        ("best", [(NAN, 2.0, False), (NAN, 1.0, False), (NAN, 3.0, False)], [1]),
        ({"every": 3}, [(0.5, 1.0, False)] * 9, [0, 3, 6]),
        ({"every": 3}, [(0.5, 1.0, False)] * 8 + [(NAN, NAN, False)], [0, 3, 6]),
    ],
)
def test_kept_models_follow_evaluation_keep(
    keep: Any, rows: list[tuple[float, float, bool]], versions: list[int]
) -> None:
    assert offered(keep, rows) == versions


def test_the_last_version_is_kept_whatever_its_number() -> None:
    assert offered({"every": 3}, [(0.5, 1.0, False)] * 6, rounds=5) == [0, 3, 5]


def accuracy(module: torch.nn.Module, data: FederatedData) -> float:
    found = module(torch.from_numpy(data.test_images)).argmax(1).numpy()
    return float(np.mean(found == data.test_labels))


def test_each_kept_model_scores_what_its_round_says(scenario: Scenario, tmp_path: Path) -> None:
    kept = scenario.override({"evaluation.keep": {"every": 2}, "seeds": 2})
    run = Run.load(execute(kept, tmp_path / "run"))
    names = [f"{version}-seed-{seed}.safetensors" for version in (0, 2, 3) for seed in (0, 1)]
    assert sorted(path.name for path in (tmp_path / "run" / "models").iterdir()) == names
    for seed in (0, 1):
        data = kept.data.build(Streams(seed))
        rounds = run.rounds[run.rounds["seed"] == seed].set_index("version")
        for version in (0, 2, 3):
            module = run.model(version, seed)
            assert accuracy(module, data) == pytest.approx(rounds["test_accuracy"][version])
    newest, third = run.model().state_dict(), run.model(3, 0).state_dict()
    assert all(torch.equal(tensor, third[name]) for name, tensor in newest.items())


def test_a_model_in_memory_is_that_on_disk(scenario: Scenario, tmp_path: Path) -> None:
    kept = scenario.override({"evaluation.keep": "best"})
    run = simulate(kept)
    best = int(run.rounds["test_accuracy"].idxmax())
    assert list(run.models) == [(0, best)]
    again = Run.load(run.save(tmp_path / "run"))
    assert (tmp_path / "run" / "models" / f"{best}.safetensors").is_file()
    state = again.model().state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in run.model().state_dict().items())
    copied = again.save(tmp_path / "copy")
    assert (copied / "models" / f"{best}.safetensors").read_bytes() == run.models[0, best]


def test_a_run_with_other_models_leaves_none_of_the_old(scenario: Scenario, tmp_path: Path) -> None:
    execute(scenario.override({"evaluation.keep": {"every": 1}}), tmp_path / "run")
    (tmp_path / "run" / "models" / "notes.txt").write_text("mine")
    execute(scenario.override({"evaluation.keep": "last"}), tmp_path / "run", force=True)
    assert sorted(path.name for path in (tmp_path / "run" / "models").iterdir()) == ["3.safetensors", "notes.txt"]
    (tmp_path / "run" / "models" / "notes.txt").unlink()
    execute(scenario, tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "models").exists()


def test_models_that_were_not_kept_are_errors(scenario: Scenario, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the run kept no models; run it with evaluation"):
        simulate(scenario).model()
    run = Run.load(execute(scenario.override({"evaluation.keep": "last"}), tmp_path / "run"))
    with pytest.raises(RunError, match=r"version must be one that was kept of seed 0 \(3\), got 2"):
        run.model(2)
    with pytest.raises(RunError, match="seed must be one of 0, got 7"):
        run.model(seed=7)
    path = tmp_path / "run" / "models" / "3.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RunError, match=r"3\.safetensors: must be safetensors.*the file is damaged"):
        run.model()


def test_a_run_goes_on_from_the_weights_of_another(scenario: Scenario, tmp_path: Path) -> None:
    first = execute(scenario.override({"evaluation.keep": "last"}), tmp_path / "first")
    kept = first / "models" / "3.safetensors"
    started = scenario.override({"model.initial": str(kept), "evaluation.keep": {"every": 3}})
    run = simulate(started)
    assert run.models[0, 0] == kept.read_bytes()
    before = Run.load(first).rounds.iloc[-1]
    assert run.rounds.iloc[0]["test_loss"] == before["test_loss"]
    named = started.digest()
    kept.write_bytes(run.models[0, 3])
    assert started.digest() != named
    with pytest.raises(DataError, match=r"3\.safetensors: 3 faults\n  1\.weight: must have shape \(9, 784\)"):
        simulate(started.override({"model.hidden": [9]}))
    kept.unlink()
    with pytest.raises(DataError, match=r"model\.initial: must be a file of weights, and .* cannot be read"):
        execute(started, tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_export_writes_a_state_dict_and_replaces_nothing(scenario: Scenario, tmp_path: Path) -> None:
    run = execute(scenario.override({"evaluation.keep": {"every": 1}}), tmp_path / "run")
    out = tmp_path / "net.pt"
    result = CliRunner().invoke(app, ["export", str(run), str(out), "--version", "2"])
    assert result.exit_code == 0, result.output
    assert "version 2 of seed 0, 4 tensors of 6370 parameters" in " ".join(result.output.split())
    state = torch.load(out, weights_only=True)
    wanted = Run.load(run).model(2).state_dict()
    assert list(state) == list(wanted)
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)
    before = out.read_bytes()
    refused = CliRunner().invoke(app, ["export", str(run), str(out)])
    assert isinstance(refused.exception, OutputError)
    assert "replace it with --force" in str(refused.exception)
    assert out.read_bytes() == before
    assert CliRunner().invoke(app, ["export", str(run), str(out), "--force"]).exit_code == 0
    assert out.read_bytes() != before
    safe = tmp_path / "net.safetensors"
    assert CliRunner().invoke(app, ["export", str(run), str(safe)]).exit_code == 0
    assert simulate(scenario.override({"model.initial": str(safe)})).rounds["version"].iloc[-1] == 3
