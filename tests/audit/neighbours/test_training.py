"""Uploads of twins: what is clipped, and that it does not matter how many are trained together."""

from typing import Any

import numpy as np
import pytest

from asyncfl.audit.neighbours import training
from asyncfl.audit.neighbours.training import TwinUpload, clipped
from asyncfl.client import Assignment
from asyncfl.privacy.release import Contribution
from tests.audit.neighbours.test_truth import observed

FEDAVG: dict[str, Any] = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}


def test_only_payloads_longer_than_the_clip_norm_are_clipped() -> None:
    payload = np.array([3.0, 4.0], np.float32)
    assert clipped(payload, 5.0, None) is payload
    assert clipped(payload, 5.0, 5.0) is payload
    assert clipped(payload, float("nan"), 1.0) is payload
    shorter = clipped(payload, 5.0, 2.5)
    assert shorter.tolist() == [1.5, 2.0]
    assert shorter.dtype == np.float32


@pytest.mark.parametrize("noise", [{}, {"privacy": {"kind": "nbafl", "epsilon": 50, "clip_norm": 0.5}}])
def test_twins_trained_in_chunks_equal_those_trained_together(noise: dict[str, Any], monkeypatch: Any) -> None:
    observer, _ = observed({**FEDAVG, **noise}, clients=(0,), neighbours=("ordinary", "zeroed"), twins=4)
    path, client = observer.path, observer.clients[0]
    task = next(iter(client.tasks.values()))
    assignment = Assignment(task.task, 0, 0, observer.federation.plan.initial, task.turn)
    worlds = [(twin.neighbour, 0.5 + number) for number, twin in enumerate(task.twins.values())]

    def made(row: int) -> list[TwinUpload]:
        norms = np.array([9.0, 0.25])
        return list(training.TwinTraining(path).uploads(assignment, Contribution(0, 10), norms, row, worlds))

    number: list[int] = []
    train = path.learner.train
    monkeypatch.setattr(path.learner, "train", lambda rows, jobs: number.append(len(jobs)) or train(rows, jobs))
    together = made(1)
    assert number == [1, len(worlds)]
    # As many as there is memory for, and one in any case.
    for chunk, some in ((0, [1] * len(worlds)), (4 * (len(worlds) - 1) * len(assignment.base), [len(worlds) - 1, 1])):
        number.clear()
        monkeypatch.setattr(training, "CHUNK_BYTES", chunk)
        one_by_one = made(1)
        assert number == [1, *some]
    for first, second in zip(together, one_by_one, strict=True):
        assert first.distances == pytest.approx(second.distances, rel=1e-5, abs=1e-9)
        assert (first.norm, first.loss) == pytest.approx((second.norm, second.loss), rel=1e-5)
        assert (first.neighbour, first.clip_norm, first.std) == (second.neighbour, second.clip_norm, second.std)
        assert first.contribution.epsilon == second.contribution.epsilon
    assert [one.contribution.epsilon for one in together] == [epsilon for _, epsilon in worlds]
    # Who sends nothing lost what the client itself did.
    zeroed = next(one for one in together if one.neighbour.kind == "zeroed")
    rows = np.empty((1, len(assignment.base)), np.float32)
    assert zeroed.loss == pytest.approx(float(path.learner.train(rows, [path.job(assignment)])[0]), rel=1e-6)
