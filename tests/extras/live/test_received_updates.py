"""Updates that wait for their buffer: claims that are checked, and the collected and recorded values."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import ClientEvent, Update
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.received_updates import ReceivedUpdates
from asyncfl.protocol.task_table import TaskTable
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.prepare import Federation, prepare, resolve
from tests.extras.live.conftest import SMALL

NOISED = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}
THREE = {"training": {"lr": 0.1, "batch_size": 10, "epochs": 3, "deadline_s": 9.0}}
"""20 samples of .2 s take 4 s an epoch: two are done."""
STEADY = {"device": {"kind": "fixed", "s_per_sample": 0.2}}


def desk(
    description: dict[str, Any], *, shape: bool = False, clients: tuple[int, ...] = (4, 1)
) -> tuple[ReceivedUpdates, Federation, TaskTable]:
    """What waits for a host that has given tasks 0, 1, ... of version 0 to these clients."""
    federation = prepare(resolve(Scenario.read({**SMALL, **description}), 0, SimulatedRuns()))
    tasks = TaskTable()
    for client in clients:
        tasks.begin(client, 0)
    samples, n = federation.data.sizes, federation.learner.n_parameters
    server: Any = SimpleNamespace(
        samples=samples, tasks=SimpleNamespace(model=lambda version: np.full(n, 10.0, np.float32))
    )
    load = Workload.of(federation.resolved.scenario, samples)
    return ReceivedUpdates(federation, server, load, LiveTiming(shape=shape)), federation, tasks


def update(task: int = 0, **more: Any) -> Update:
    told = {"loss": 0.5, "added_std": 0.0, "epsilon": None, "report": (), "epochs": None} | more
    return Update(task, **told)


@pytest.mark.parametrize(
    ("shape", "epochs", "detail", "why"),
    [
        (True, 2, "2 of 3 epochs", None),
        (True, 1, "1 of 3 epochs", "task 0 comes of 1 epochs, and client 4 does 2 of 3 in 9 s"),
        (True, None, "", "task 0 comes of all 3 epochs, and client 4 does 2 of 3 in 9 s"),
        (True, 2, "1 of 3 epochs", "task 0 comes of 2 epochs, and tells '1 of 3 epochs'"),
        (True, None, "2 of 3 epochs", "task 0 comes of all epochs, and tells '2 of 3 epochs'"),
        (False, 1, "1 of 3 epochs", None),
        (False, 2, "2 of 3 epochs", None),
        (False, None, "", None),
        (False, 3, "3 of 3 epochs", "task 0 comes of 3 epochs, a task has 3, and who does all does not count them"),
    ],
)
def test_an_update_must_count_the_epochs_that_its_client_can_have_done(
    shape: bool, epochs: int | None, detail: str, why: str | None
) -> None:
    updates, _, in_flight = desk({**THREE, "world": STEADY}, shape=shape)
    said = update(epochs=epochs, report=(ClientEvent(1.0, "trained", detail=detail), ClientEvent(2.0, "uploaded")))
    [task] = in_flight.collect((0,))
    if why is None:
        updates.check(said, task)
    else:
        with pytest.raises(MessageError, match=why):
            updates.check(said, task)


def test_a_buffer_is_collected_in_the_requested_order_with_losses_and_noise() -> None:
    selection = {"kind": "power_of_choice", "candidates": 3}
    updates, federation, in_flight = desk(
        {
            "privacy": NOISED,
            "protocol": {"kind": "sync", "rounds": 3, "participants": 3, "selection": selection, "check_norms": False},
        },
        clients=(4, 1, 3),
    )
    n = federation.learner.n_parameters
    tasks = in_flight.collect((0, 1, 2))
    sent = [np.full(n, 0.5, np.float32), np.full(n + 1, np.inf, np.float32), np.full(n, np.nan, np.float32)]
    told = [update(0, added_std=0.25), update(1, loss=0.75, added_std=0.25), update(2, loss=None, added_std=0.0)]
    for message, model, task in zip(told, sent, tasks, strict=True):
        updates.keep(message, model, task)
    collected = updates.collect(in_flight.collect((2, 0, 1)), 12.5)
    assert collected.tasks == (2, 0, 1)
    assert collected.losses is not None
    np.testing.assert_array_equal(collected.losses, [np.nan, 0.5, 0.75])
    assert collected.sound is not None
    assert collected.sound.tolist() == [True, True, False], "an update of another length is not sound"
    assert np.isnan(collected.models[0]).all()
    assert (collected.models[1] == 0.5).all()
    made = [federation.releases.upload(number) for number in (0, 1, 2)]
    assert [one.added_std for one in made] == [0.25, 0.25, 0.0]
    assert [one.clip_norm for one in made] == [2.0, None, None]


@pytest.mark.parametrize("add_noise", [True, False])
def test_uploads_of_attackers_without_noise_are_recorded_without_noise(add_noise: bool) -> None:
    threats = {"attackers": 2, "attack": {"kind": "sign_flip"}, "attackers_add_noise": add_noise}
    updates, federation, in_flight = desk({"privacy": NOISED, "threats": threats}, clients=(0, 1, 2, 3, 4, 5))
    tasks = in_flight.collect((0, 1, 2, 3, 4, 5))
    for task in tasks:
        model = np.zeros(federation.learner.n_parameters, np.float32)
        updates.keep(update(task.number), model, task)
    collected = updates.collect(in_flight.collect((0, 1, 2, 3, 4, 5)), 12.5)
    made = [federation.releases.upload(number) for number in range(6)]
    attacked = [one.attacked for one in made]
    assert federation.attackers is not None
    assert attacked == [federation.attackers.malicious(task.number, task.client) for task in tasks]
    assert sum(attacked) == 2
    assert [one.release.std for one in made] == [0.0 if bad and not add_noise else 1.0 for bad in attacked]
    assert collected.upload_std is not None
    assert (collected.upload_std == 1.0).all(), "what the scheme asks for"
