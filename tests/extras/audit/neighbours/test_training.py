"""Twins: how they are trained together, how far they have gone, which are followed; no scheme's bound is exceeded."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.client import Assignment
from asyncfl.extras.audit.neighbours import audited
from asyncfl.extras.audit.neighbours.findings import ROUNDING
from asyncfl.extras.audit.neighbours.training import step_distances
from asyncfl.results.seed_ledger import SeedLedger
from tests.extras.audit.neighbours.observed import observed


@pytest.mark.parametrize(("tried", "left"), [(2, 2), (3, 3), (4, 3), (7, 4), (8, 4), (9, 5)])
def test_the_more_distant_half_of_the_twins_goes_on_and_three_at_least(tried: int, left: int) -> None:
    private = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}
    observer, _ = observed(private, clients=(0,), neighbours=("noise",), twins=tried)
    client = observer.clients[0]
    [first] = client.tasks.values()
    assert len(first.twins) == tried
    furthest = sorted(first.twins, key=lambda number: -first.twins[number].distance)[:left]
    assert [one.number for one in client.followed] == sorted(furthest) == sorted(client.states)


"""Schemes that promise a bound on what a neighbour can change: no twin exceeds it."""


SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 12, "source": "embedded", "test_samples": 20},
    "model": {"kind": "mlp", "hidden": [6]},
    "training": {"lr": 0.05, "batch_size": 5, "epochs": 2},
    "protocol.rounds": 2,
}


def tables(changes: dict[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Releases and ledger of an audited run. No release moves by more than its sensitivity."""
    observer, run = observed({**SMALL, **changes}, clients=2, twins=14)
    found = audited(observer, run, SeedLedger(run).ledger)
    releases, ledger = found.table.to_pandas(), found.ledger.to_pandas()
    counted = releases[releases["counts"]]
    assert len(counted)
    assert (counted["distance"] <= counted["sensitivity"] * (1 + ROUNDING)).all()
    return releases, ledger[ledger["measured"].notna()]


def check(changes: dict[str, Any]) -> None:
    """No proven sensitivity is exceeded, and nothing that is measured is above what is provable."""
    _, measured = tables(changes)
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
    changes = {"privacy": privacy, **training}
    if noise_at == "client":
        check(changes)
        return
    releases, measured = tables(changes)
    assert set(releases["holder"]) == {"client", "model"}
    uploads = releases[releases["holder"] == "client"]
    assert np.isinf(uploads.groupby(["client", "kind", "adversary"])["epsilon"].max()).all()
    models = measured[measured["holder"] == "model"]
    assert (models["measured"] <= models["exact_epsilon"] * (1 + 1e-4)).all()
    assert (models["measured"] > 0).all()


@settings(max_examples=8)
@given(training=TRAININGS, clip=st.sampled_from([0.01, 1.0, 100.0]), noise=st.sampled_from([0.3, 2.0]))
def test_no_twin_of_dp_sgd_exceeds_its_sensitivity(training: dict[str, Any], clip: float, noise: float) -> None:
    privacy = {"kind": "dp_sgd", "clip_norm": clip, "noise_multiplier": noise}
    check({"privacy": privacy, "training.example_clip": clip, "training.example_noise": noise, **training})


@settings(max_examples=6)
@given(
    training=TRAININGS,
    target=st.sampled_from(["model", "update"]),
    client=st.sampled_from([{"kind": "gaussian", "epsilon": 3}, {"kind": "laplace", "epsilon": 3}]),
)
def test_no_twin_of_a_mechanism_exceeds_its_sensitivity(
    training: dict[str, Any], target: str, client: dict[str, Any]
) -> None:
    check({"privacy": {"kind": "mechanisms", "clip": {"target": target, "norm": 0.3}, "client": client}, **training})


@pytest.mark.parametrize(
    "training",
    [
        {"training.momentum": 0.0},
        {"training.momentum": 0.9},
        {"training.optimizer": "adam", "training.eps": 0.01, "training.schedule": {"shape": "cosine"}},
        {"model": {"kind": "mlp", "hidden": [6], "dropout": 0.5}},
    ],
    ids=["sgd", "momentum", "adam, cosine", "dropout"],
)
def test_steps_of_dp_sgd_are_those_of_the_run(training: dict[str, Any]) -> None:
    """The end of the steps that distances are measured in is the model that the client uploads."""
    private = {"kind": "dp_sgd", "clip_norm": 0.5, "noise_multiplier": 1.0}
    changes = {"privacy": private, "training.example_clip": 0.5, "training.example_noise": 1.0}
    changes |= {**training, "training.proximal_mu": 0.1}
    observer, _ = observed({**SMALL, **changes}, clients=2, twins=14)
    path = observer.path
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
