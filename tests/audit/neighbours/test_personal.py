"""Twins where some layers are the clients' own: each world has its own, from the first task on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.audit.neighbours import TwinsObserver, audited
from asyncfl.client import Assignment
from asyncfl.federation import SeedLedger
from asyncfl.learning.personal_layers import SharedPartLearner
from tests.audit.neighbours.observed import observed

PERSONAL: dict[str, Any] = {
    "data.dataset": "iris",
    "data.source": "auto",
    "data.clients": 4,
    "model": {"kind": "mlp", "hidden": [5], "personal": ["3.*"]},
    "protocol.rounds": 4,
    "training": {"lr": 0.3, "batch_size": 5, "epochs": 2},
    "evaluation.keep": {"every": 1},
}
FIXED: dict[str, Any] = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}
MEDIAN: dict[str, Any] = {"privacy": {"kind": "nbafl", "epsilon": 50, "sensitivity": "2C", "clip_norm": "median"}}


def updates(observer: TwinsObserver, run: Any, client: int, number: int | None) -> list[np.ndarray[Any, Any]]:
    """What a client would send before it is clipped, task after task, on its own data or those of a neighbour."""
    path, learner = observer.path, observer.path.learner
    assert isinstance(learner, SharedPartLearner)
    own, found = learner.initial, []
    for task in observer.clients[client].tasks.values():
        assignment = Assignment(task.task, client, task.base_version, run.kept[task.base_version], task.turn)
        job = path.job(assignment)
        if number is not None:
            images, labels = task.twins[number].neighbour.data(path.data, client)
            job = replace(job, images=images, labels=labels)
        whole = np.empty((1, learner.whole.n_parameters), np.float32)
        learner.whole.train(whole, [replace(job, base=learner.parameter_split.join(job.base, own))])
        shared, own = (part[0] for part in learner.parameter_split.split(whole))
        found.append(shared - assignment.base if path.scheme.clip_target.payload == "update" else shared)
    return found


@pytest.mark.parametrize("private", [FIXED, MEDIAN], ids=["fixed", "median"])
def test_a_twin_keeps_its_own_personal_layers(private: dict[str, Any]) -> None:
    kinds = ("mislabelled", "exchanged")
    observer, run = observed({**PERSONAL, **private}, clients=(0, 2), neighbours=kinds, twins=2)
    assert sorted(observer.clients) == [0, 2]
    for client, found in observer.clients.items():
        assert len(found.tasks) == 4
        own = updates(observer, run, client, None)
        for neighbour in found.followed:
            theirs = updates(observer, run, client, neighbour.number)
            for task, mine, other in zip(found.tasks.values(), own, theirs, strict=True):
                twin = task.twins[neighbour.number]
                assert twin.norm == pytest.approx(np.linalg.norm(other), rel=1e-5)
                if private is FIXED:
                    mine, other = (one * min(1.0, 0.05 / float(np.linalg.norm(one))) for one in (mine, other))
                    assert twin.distance == pytest.approx(np.linalg.norm(mine - other), rel=1e-3)
    assert any(task.others for task in observer.clients[0].tasks.values()) == (private is MEDIAN)
    table = audited(observer, run, SeedLedger(run).ledger).table.to_pandas()
    assert (table.query("adversary == 'server' and holder == 'client'").groupby(["client", "kind"]).size() == 4).all()


def test_an_audit_with_personal_layers_leaves_the_run_unchanged() -> None:
    _, one = observed({**PERSONAL, **FIXED}, clients=1, twins=4)
    _, other = observed({**PERSONAL, **FIXED}, clients=4, twins=8)
    assert one.rounds[-1]["test_loss"] == other.rounds[-1]["test_loss"]
    np.testing.assert_array_equal(one.kept_personal[4], other.kept_personal[4])


def test_steps_of_dp_sgd_are_noised_in_all_layers_and_stay_within_what_examples_are_clipped_to() -> None:
    changes = {
        **PERSONAL,
        "training": {"lr": 0.1, "batch_size": 5, "epochs": 2, "example_clip": 0.5, "example_noise": 1.0},
        "privacy": {"kind": "dp_sgd", "clip_norm": 0.5, "noise_multiplier": 1.0},
    }
    observer, run = observed(changes, clients=(1,), neighbours=("mislabelled", "ascent"), twins=4)
    distances = [
        distance
        for task in observer.clients[1].tasks.values()
        for twin in task.twins.values()
        for distance in twin.distances
    ]
    assert len(observer.clients[1].tasks) == 4
    assert 0.3 < max(distances) <= 1.0 + 1e-5
    assert len(audited(observer, run, SeedLedger(run).ledger).table)


def test_a_client_is_not_audited_after_it_attacks() -> None:
    threats = {"attack": {"kind": "sign_flip"}, "attackers": 0.5, "from_version": 2}
    observer, run = observed({**PERSONAL, **FIXED, "threats": threats}, clients=4, twins=2)
    assert observer.strayed
    followed = {client: len(found.tasks) for client, found in observer.clients.items()}
    assert {count for client, count in followed.items() if client not in observer.strayed} == {4}
    assert {count for client, count in followed.items() if client in observer.strayed} == {2}
    assert run.stopped == "all versions published"
