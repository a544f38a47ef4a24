"""Recorded runs on disk: replayed without a clock, and shown to components buffer by buffer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl import api
from asyncfl.api import execute, simulate
from asyncfl.base.errors import RunError
from asyncfl.client import TaskPath
from asyncfl.protocol.recording import ReplayError
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.testing import read_recording, recorded_buffers, replay_run


@pytest.fixture
def attacked(tiny: dict[str, Any]) -> Scenario:
    """An asynchronous run on lossy links with attackers, SAFL's detector, strikes, and sleeping attackers."""
    tiny["data"]["clients"] = 8
    tiny["protocol"] = {"kind": "buffered", "rounds": 8, "buffer": 4, "dispatch": {"kind": "constant", "in_flight": 7}}
    tiny["world"]["device"]["sigma"] = 1.0
    tiny["world"]["uplink"] |= {"loss": {"kind": "independent", "probability": 0.02}, "retransmissions": 0}
    tiny["world"]["availability"] = {"kind": "alternating", "on_s": 3.0, "off_s": 0.3}
    tiny["threats"] = {"attack": {"kind": "sign_flip"}, "attackers": 2, "rhythm": {"asleep": 1, "awake": 3}}
    tiny["defence"] = {"detector": {"kind": "safl"}, "strikes": {"threshold": 2}}
    return Scenario.read(tiny)


def test_a_recorded_run_is_reproduced_without_a_clock(attacked: Scenario, tmp_path: Path) -> None:
    recorded = attacked.override({"evaluation.record": "parameters"})
    folder = execute(recorded, tmp_path / "run")
    shown = replay_run(folder)
    assert shown.unchecked == ()
    fates = Run.load(folder).summary["fates"]
    assert min(fates["flagged"], fates["banned"], fates["lost_up"]) > 0, fates
    assert shown.actions > sum(fates.values())


def test_a_recording_with_digests_is_replayed_by_training_again(attacked: Scenario, tmp_path: Path) -> None:
    folder = execute(attacked.override({"evaluation.record": "digests"}), tmp_path / "run")
    with pytest.raises(RunError, match="'safl' judges parameters"):
        replay_run(folder)
    assert replay_run(folder, train=True).unchecked == ()


def test_a_replay_uses_as_many_threads_as_the_run(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = execute(scenario.override({"evaluation.record": "digests"}), tmp_path / "run")
    had, used, carry_out = torch.get_num_threads(), set(), TaskPath.carry_out

    def noted(*arguments: Any) -> Any:
        used.add(torch.get_num_threads())
        return carry_out(*arguments)

    monkeypatch.setattr(TaskPath, "carry_out", noted)
    torch.set_num_threads(had + 1)
    try:
        assert replay_run(folder, train=True).unchecked == ()
        assert torch.get_num_threads() == had + 1
    finally:
        torch.set_num_threads(had)
    assert used == {had}
    (folder / "summary.json").write_text("{}")
    with pytest.raises(RunError, match=r"summary\.json must say with how many threads"):
        replay_run(folder)


@pytest.mark.parametrize("protocol", [{}, {"kind": "sync", "rounds": 6, "participants": 4}])
def test_a_replay_draws_the_same_attackers_per_round(
    attacked: Scenario, protocol: dict[str, Any], tmp_path: Path
) -> None:
    changes = {"protocol": protocol} if protocol else {}
    per_round = attacked.override({"evaluation.record": "digests", "threats.selection": "per_round", **changes})
    assert replay_run(execute(per_round, tmp_path / "run"), train=True).unchecked == ()


def test_a_resumed_run_has_the_same_recording_as_an_uninterrupted_one(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = scenario.override({"seeds": [3, 5], "evaluation.record": "digests"})
    run = simulate(recorded)
    run.save(tmp_path / "whole")
    original = api.one_seed

    def killed_in_seed_5(description: Scenario, seed: int, progress: Any, *more: Any) -> Run:
        if seed == 5:
            raise KeyboardInterrupt
        return original(description, seed, progress, *more)

    with monkeypatch.context() as patched:
        patched.setattr(api, "one_seed", killed_in_seed_5)
        with pytest.raises(KeyboardInterrupt):
            execute(recorded, tmp_path / "resumed")
    execute(recorded, tmp_path / "resumed")
    whole, resumed = ((tmp_path / name / "messages.jsonl").read_bytes() for name in ("whole", "resumed"))
    assert whole == resumed
    assert read_recording(tmp_path / "whole", 5).seed == 5
    assert replay_run(tmp_path / "whole", 5).unchecked == ("models of versions above 0",)
    assert not (execute(scenario, tmp_path / "none") / "messages.jsonl").exists()


def test_a_replay_of_another_scenario_fails(scenario: Scenario, tmp_path: Path) -> None:
    folder = execute(scenario.override({"evaluation.record": "digests"}), tmp_path / "run")
    other = scenario.override({"evaluation.record": "digests", "training.lr": 0.06})
    (folder / "scenario.yaml").write_text(other.to_yaml())
    assert replay_run(folder).unchecked, "who came when is the same"
    with pytest.raises(ReplayError, match="other models were collected"):
        replay_run(folder, train=True)


def test_recorded_buffers_are_those_the_defences_saw(attacked: Scenario, tmp_path: Path) -> None:
    folder = execute(attacked.override({"evaluation.record": "parameters"}), tmp_path / "run")
    buffers = list(recorded_buffers(read_recording(folder)))
    rounds = Run.load(folder).rounds
    assert [buffer.version for buffer in buffers] == list(range(8))
    kept = rounds["participants"].to_numpy()[1:]
    assert all(len(buffer) >= n for buffer, n in zip(buffers, kept, strict=True))
    assert max(buffer.staleness.max() for buffer in buffers) >= rounds["staleness_max"].max()
    assert all((buffer.samples == 20).all() for buffer in buffers)
    assert all(np.abs(buffer.deltas).max() > 0 and not buffer.models.flags.writeable for buffer in buffers)
    with pytest.raises(RunError, match="holds no models"):
        list(
            recorded_buffers(read_recording(execute(attacked.override({"evaluation.record": "digests"}), folder / "d")))
        )


@pytest.mark.parametrize("kind", ["non_finite", "wrong_length"])
def test_recorded_buffers_leave_out_malformed_updates_and_banned_clients(
    attacked: Scenario, tmp_path: Path, kind: str
) -> None:
    changes = {"threats": {"attack": {"kind": kind}, "attackers": 3}, "defence": {"strikes": {"threshold": 1}}}
    run = simulate(attacked.override({**changes, "evaluation.record": "parameters"}))
    run.save(tmp_path / "run")
    buffers = list(recorded_buffers(read_recording(tmp_path / "run")))
    fates = run.summary["fates"]
    assert fates["rejected"] > 0
    assert sum(len(buffer) for buffer in buffers) == fates["aggregated"]
    assert [len(buffer) for buffer in buffers] == run.rounds["participants"].tolist()[1:]
    assert all(np.isfinite(buffer.models).all() for buffer in buffers)


def test_a_run_with_personal_layers_cannot_be_replayed(scenario: Scenario, tmp_path: Path) -> None:
    layers = scenario.override({"evaluation.record": "digests", "model.personal": ["*1*"]})
    with pytest.raises(
        RunError, match=r"learns from tasks whose updates never arrived \(by its privacy scheme, in pers"
    ):
        replay_run(execute(layers, tmp_path / "run"))
