"""Schemes that promise a bound on what a neighbour can change: no twin exceeds it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.audit.neighbours import TwinsObserver, audited
from asyncfl.audit.neighbours.findings import ROUNDING, Audited
from asyncfl.audit.neighbours.training import step_distances
from asyncfl.evaluation import TwinAudit
from asyncfl.federation import Federation, SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

TINY: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 12, "source": "embedded", "test_samples": 20},
    "model": {"kind": "mlp", "hidden": [6]},
    "training": {"lr": 0.05, "batch_size": 5, "epochs": 2},
    "protocol": {"kind": "sync", "rounds": 2},
}
AUDIT = TwinAudit(clients=2, twins=14)


def run(changes: dict[str, Any], audit: TwinAudit = AUDIT) -> tuple[Audited, TwinsObserver]:
    scenario, observers = Scenario.read(TINY).override(changes), []

    def watched(federation: Federation) -> Federation:
        observers.append(TwinsObserver(federation, audit))
        federation.path.observer = observers[0]
        return federation

    seed = simulate_seed(scenario, 0, around=watched)
    return audited(observers[0], seed, SeedLedger(seed).ledger), observers[0]


def check(found: Audited) -> None:
    """No proven sensitivity is exceeded, and nothing that is measured is above what is provable."""
    table = found.table.to_pandas()
    counted = table[table["counts"]]
    assert len(counted)
    assert (counted["distance"] <= counted["sensitivity"] * (1 + ROUNDING)).all()
    ledger = found.ledger.to_pandas()
    measured = ledger[ledger["measured"].notna()]
    assert len(measured)
    assert (measured["status"] == "proven").all()
    assert (measured["measured"] <= measured["provable"] * (1 + 1e-4) + 1e-9).all()


TRAININGS = st.fixed_dictionaries(
    {
        "training.lr": st.sampled_from([0.01, 0.3, 3.0]),
        "training.momentum": st.sampled_from([0.0, 0.9]),
        "training.batch_size": st.sampled_from([1, 5, "full"]),
        "training.proximal_mu": st.sampled_from([0.0, 0.5]),
    }
)


@settings(max_examples=12)
@given(
    training=TRAININGS,
    clip=st.sampled_from([0.01, 0.5, 5.0]),
    neighbours=st.sampled_from(["replace", "zero_out"]),
    noise_at=st.sampled_from(["client", "server"]),
    adaptive=st.sampled_from([None, {"quantile": 0.5}]),
)
def test_no_twin_of_a_clipped_update_exceeds_its_sensitivity(
    training: dict[str, Any], clip: float, neighbours: str, noise_at: str, adaptive: dict[str, Any] | None
) -> None:
    privacy = {
        "kind": "dp_fedavg",
        "clip_norm": clip,
        "noise_multiplier": 0.7,
        "neighbours": neighbours,
        "noise_at": noise_at,
        "adaptive": adaptive,
    }
    found, _ = run({"privacy": privacy, **training})
    if noise_at == "server":
        table = found.table.to_pandas()
        assert set(table["holder"]) == {"client", "model"}
        uploads = table[table["holder"] == "client"]
        assert np.isinf(uploads.groupby(["client", "kind", "adversary"])["epsilon"].max()).all()
        ledger = found.ledger.to_pandas()
        models = ledger[(ledger["holder"] == "model") & ledger["measured"].notna()]
        assert (models["measured"] <= models["exact_epsilon"] * (1 + 1e-4)).all()
        assert (models["measured"] > 0).all()
        counted = table[(table["holder"] == "model") & table["counts"]]
        assert (counted["distance"] <= counted["sensitivity"] * (1 + ROUNDING)).all()
    else:
        check(found)


@settings(max_examples=8)
@given(training=TRAININGS, clip=st.sampled_from([0.01, 1.0, 100.0]), noise=st.sampled_from([0.3, 2.0]))
def test_no_twin_of_dp_sgd_exceeds_its_sensitivity(training: dict[str, Any], clip: float, noise: float) -> None:
    privacy = {"kind": "dp_sgd", "clip_norm": clip, "noise_multiplier": noise}
    found, _ = run({"privacy": privacy, "training.example_clip": clip, "training.example_noise": noise, **training})
    check(found)


@settings(max_examples=6)
@given(
    training=TRAININGS,
    target=st.sampled_from(["model", "update"]),
    client=st.sampled_from([{"kind": "gaussian", "epsilon": 3}, {"kind": "laplace", "epsilon": 3}]),
)
def test_no_twin_of_a_mechanism_exceeds_its_sensitivity(
    training: dict[str, Any], target: str, client: dict[str, Any]
) -> None:
    found, _ = run(
        {"privacy": {"kind": "mechanisms", "clip": {"target": target, "norm": 0.3}, "client": client}, **training}
    )
    check(found)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_of_dp_sgd_are_those_of_the_run(momentum: float) -> None:
    """The end of the steps that distances are measured in is the model that the client uploads."""
    private = {"kind": "dp_sgd", "clip_norm": 0.5, "noise_multiplier": 1.0}
    changes = {"privacy": private, "training.example_clip": 0.5, "training.example_noise": 1.0}
    changes |= {"training.momentum": momentum, "training.proximal_mu": 0.1}
    _, observer = run(changes)
    path = observer.path
    from asyncfl.client import Assignment

    assignment = Assignment(0, 1, 0, observer.federation.plan.initial, 0)
    trained = np.empty((1, len(assignment.base)), np.float32)
    path.learner.train(trained, [path.job(assignment)])
    job, other = path.job(assignment), path.job(assignment)
    changed = other.images.copy()
    changed[3] = 0
    distances, model = step_distances(
        path.learner, job, [type(job)(**{**vars(other), "images": changed}), other], [False] * 2
    )
    assert np.allclose(model, trained[0], atol=1e-5)
    assert len(distances[0]) == 2  # once in each epoch
    assert distances[1] == [0.0]
