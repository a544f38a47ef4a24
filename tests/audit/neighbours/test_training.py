"""Twins: how they are trained together, how far they have gone, and which of them are followed."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.audit.neighbours import training
from asyncfl.audit.neighbours.data import Neighbour
from asyncfl.audit.neighbours.observer import AuditedClient
from asyncfl.audit.neighbours.training import TwinUpload
from asyncfl.client import Assignment
from asyncfl.privacy.release import Contribution
from tests.audit.neighbours.test_truth import observed

FEDAVG: dict[str, Any] = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}


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


def made_task(std: float, **distances: tuple[float, ...]) -> Any:
    twins = {int(number[1:]): SimpleNamespace(distances=of) for number, of in distances.items()}
    return SimpleNamespace(twins=twins, release=SimpleNamespace(std=std))


def test_twins_are_sorted_by_squared_distances_in_units_of_the_noise() -> None:
    followed = [Neighbour("noise", number) for number in (1, 2, 3, 4)] + [Neighbour("zeroed", 5)]
    tasks: Any = {0: made_task(2.0, _1=(3.0, 4.0)), 1: made_task(0.0, _1=(5.0,)), 2: made_task(1.0, _2=(7.0,))}
    client = AuditedClient(0, followed, {}, 6, tasks)
    assert [client.so_far(one) for one in followed] == pytest.approx([25 / 4 + 25, 49, 0, 0, 0])
    # Of twins that went equally far, the first comes first.
    assert [one.number for one in client.furthest_first("noise")] == [2, 1, 3, 4]
    assert client.furthest_first("ascent") == []


@pytest.mark.parametrize(("tried", "left"), [(2, 2), (3, 3), (4, 3), (7, 4), (8, 4), (9, 5)])
def test_the_more_distant_half_of_the_twins_goes_on_and_three_at_least(tried: int, left: int) -> None:
    private = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}
    observer, _ = observed(private, clients=(0,), neighbours=("noise",), twins=tried)
    client = observer.clients[0]
    [first] = client.tasks.values()
    assert len(first.twins) == tried
    furthest = sorted(first.twins, key=lambda number: -first.twins[number].distance)[:left]
    assert [one.number for one in client.followed] == sorted(furthest) == sorted(client.states)
