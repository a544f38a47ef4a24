"""What clients do when the clock says that they have done it, without a federation: trained, collected, scored."""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.client import Assignment
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.messages import RequestScores
from asyncfl.simulation import clients as simulated
from asyncfl.simulation.clients import SimulatedClients

BASE, NEWEST = np.zeros(2, np.float32), np.ones(2, np.float32)


class Path:
    """Takes down what it is asked to train, and uploads `NEWEST` of each."""

    every_task, personal = False, None
    scheme = SimpleNamespace(scores=None)
    training = SimpleNamespace(epochs=4)

    def __init__(self) -> None:
        self.trained: list[Any] = []

    def train(self, assignment: Assignment) -> None:
        self.trained.append(assignment)

    def carry_out(self, assignments: list[Assignment], version: int, newest: Any) -> Any:
        self.trained.append((assignments, version, newest))
        n = len(assignments)
        return SimpleNamespace(
            zeroed=np.array([True] * n),
            uploads=["an upload"] * n,
            models=np.stack([NEWEST] * n),
            losses=np.full(n, 0.5),
            sound=None,
            clip_norm=2.0,
            asked_std=np.full(n, 0.25),
        )

    def accuracies(self, client: int, models: Any, own: Any) -> list[float]:
        return [client / 8] * len(models)


def made() -> tuple[SimulatedClients, Path, list[Any], list[Any]]:
    """Two clients under attack, what they trained, who was asked whether it attacks, and what is on record."""
    path, asked, recorded = Path(), list[Any](), list[Any]()
    attackers = SimpleNamespace(attacks=lambda *of: bool(asked.append(of)))
    record = SimpleNamespace(collected=recorded.extend)
    models = {3: BASE, 7: NEWEST}
    server: Any = SimpleNamespace(rehearse=len, version=7, tasks=SimpleNamespace(model=models.__getitem__))
    federation: Any = SimpleNamespace(path=path, attackers=attackers, releases=record)
    return SimulatedClients(federation, server), path, asked, recorded


def test_a_scorer_answers_as_what_it_was_in_its_last_update_and_as_nobody_before() -> None:
    clients, _, asked, _ = made()
    request = RequestScores(0, 2, np.zeros((3, 2), np.float32))
    assert clients.score(request, 1).tolist() == [0.25] * 3
    clients.carry_out(1.0, [TaskInFlight(5, 2, 3, turn=4), TaskInFlight(6, 1, 3, turn=9)])
    clients.score(request, 2)
    assert asked == [(-1, 2, 7, 0), (5, 2, 3, 4)]


def test_what_is_collected_comes_with_its_work_and_is_on_record() -> None:
    clients, path, _, recorded = made()
    tasks = [TaskInFlight(5, 2, 3, turn=4, epochs=1), TaskInFlight(6, 1, 7)]
    found = clients.carry_out(1.5, tasks)
    [(assignments, version, newest)] = path.trained
    assert [(one.task, one.client, one.base_version, one.turn, one.epochs) for one in assignments] == [
        (5, 2, 3, 4, 1),
        (6, 1, 7, 0, None),
    ]
    assert (assignments[0].base is BASE, version, newest is NEWEST) == (True, 7, True)
    assert (found.time_s, found.tasks, found.clip_norm, found.sound) == (1.5, (5, 6), 2.0, None)
    assert found.work is not None
    assert found.upload_std is not None
    assert (found.work.tolist(), found.upload_std.tolist(), found.losses.tolist()) == ([0.25, 1], [0.25] * 2, [0.5] * 2)
    assert (recorded, clients.zeroed.tolist()) == (["an upload"] * 2, [True, True])


def test_a_task_without_its_model_cannot_be_trained_ahead() -> None:
    clients, path, _, _ = made()
    with pytest.raises(ValueError, match="the base model of task 5 was not kept"):
        clients.train(TaskInFlight(5, 2, 3))
    assert path.trained == []


def test_the_time_of_all_that_clients_do_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    times = accumulate([100, 1, 10, 2, 10, 4])
    monkeypatch.setattr(simulated, "time", SimpleNamespace(perf_counter=times.__next__))
    clients, path, _, _ = made()
    task = TaskInFlight(5, 2, 3, turn=1, base=BASE)
    assert clients.seconds == 0
    clients.train(task)
    clients.carry_out(1.0, [task])
    clients.score(RequestScores(0, 2, np.zeros((1, 2), np.float32)), 0)
    assert clients.seconds == 1 + 2 + 4
    assert path.trained[0] == Assignment(5, 2, 3, BASE, 1, None)
