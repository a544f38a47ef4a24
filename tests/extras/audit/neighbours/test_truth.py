"""Twins against worlds that are simulated many times: the likelihood ratio of what is really released."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.client import Assignment
from asyncfl.extras.audit.neighbours import audited
from asyncfl.privacy.accounting.gaussian import exact_epsilon, log_delta
from asyncfl.results.seed_ledger import SeedLedger
from tests.extras.audit.neighbours.observed import first_task, observed


def test_a_linear_twin_moves_by_the_difference_of_two_gradients() -> None:
    """One step of softmax regression on all n samples: the twin moves by lr/n times the difference of two gradients."""
    private = {"kind": "dp_fedavg", "clip_norm": 100.0, "noise_multiplier": 0.01}
    observer, _ = observed({"privacy": private}, clients=(0,), neighbours=("mislabelled", "noise"), twins=8)
    data, initial = observer.path.data, observer.federation.plan.initial
    weight, bias = initial[:7840].reshape(10, 784).astype(np.float64), initial[7840:].astype(np.float64)

    def gradient(image: np.ndarray[Any, Any], label: int) -> np.ndarray[Any, Any]:
        x = image.reshape(-1).astype(np.float64)
        logits = weight @ x + bias
        p = np.exp(logits - logits.max())
        error = p / p.sum() - np.eye(10)[label]
        return np.concatenate([np.outer(error, x).reshape(-1), error])

    images, labels = data.client(0)
    task = first_task(observer)
    assert len(task.twins) == 8
    for twin in task.twins.values():
        one = twin.neighbour
        assert one.image is not None
        own = gradient(images[one.sample], int(labels[one.sample]))
        expected = 0.1 / 10 * np.linalg.norm(gradient(one.image, one.label) - own)
        assert twin.distance == pytest.approx(expected, rel=1e-4)


def test_the_simulated_likelihood_ratio_has_the_delta_of_the_distance() -> None:
    """Uploads are drawn in both worlds; the likelihood ratio's delta at epsilon is the one that the distance tells."""
    private = {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 2.0}
    observer, run = observed({"privacy": private}, clients=(0,), neighbours=("brightest",), twins=1)
    path, task = observer.path, first_task(observer)
    [twin] = task.twins.values()
    assignment = Assignment(task.task, 0, 0, observer.federation.plan.initial, task.turn)
    images, labels = twin.neighbour.data(path.data, 0)
    own = path.job(assignment)
    rows = np.empty((2, len(assignment.base)), np.float32)
    path.learner.train(rows, [own, replace(own, images=images, labels=labels)])
    means = [(row - assignment.base) * min(1.0, 0.05 / float(np.linalg.norm(row - assignment.base))) for row in rows]
    std, random, n = task.release.std, np.random.default_rng(0), 2000
    losses = np.empty(n)
    for place in range(n):
        x = means[0] + std * random.standard_normal(len(means[0]))
        losses[place] = (((x - means[1]) ** 2).sum() - ((x - means[0]) ** 2).sum()) / (2 * std**2)
    mu = twin.distance / std
    epsilon = 0.1 * mu
    values = np.maximum(0, 1 - np.exp(epsilon - losses))
    expected_delta = math.exp(float(log_delta(np.array([mu]), np.array([epsilon]))[0]))
    assert values.mean() == pytest.approx(expected_delta, abs=4 * values.std() / math.sqrt(n))
    found = audited(observer, run, SeedLedger(run).ledger).table.to_pandas()
    found = found[(found["adversary"] == "server") & (found["holder"] == "client")]
    assert found["epsilon"].tolist() == [pytest.approx(exact_epsilon(mu**2, found["delta"].iloc[0]))]


def test_a_twin_that_moves_the_median_norm_changes_all_noise() -> None:
    """Of two clients' norms the median is their mean: in the two worlds both uploads have different noise."""
    private = {"kind": "nbafl", "epsilon": 50, "sensitivity": "2C"}
    observer, run = observed({"privacy": private}, clients=(0,), neighbours=("exchanged",), twins=1)
    task = first_task(observer)
    [twin] = task.twins.values()
    [other] = task.others[twin.neighbour.number]
    clip_norm = run.uploads[0].clip_norm
    assert twin.clip_norm != clip_norm
    assert twin.std / task.release.std == pytest.approx(twin.clip_norm / clip_norm)
    assert other.twin_std / other.std == pytest.approx(twin.clip_norm / clip_norm)
    table = audited(observer, run, SeedLedger(run).ledger).table.to_pandas().query("adversary == 'server'")
    alone = exact_epsilon((twin.distance / task.release.std) ** 2, 0.01)
    assert table[table["holder"] == "client"]["epsilon"].iloc[0] > alone


def test_a_model_with_laplace_noise_is_worth_its_l1_distance_over_the_scale() -> None:
    """A client's upload is half of the model. Without a delta it may be worth that much, and no more than is proven."""
    private = {"kind": "mechanisms", "server": {"kind": "laplace", "epsilon": 5}}
    tapped = {"privacy": private, "world.tap.downlink": True, "protocol.rounds": 2}
    observer, run = observed(tapped, clients=(0,), neighbours=("brightest",), twins=1)
    [twin] = first_task(observer).twins.values()
    found = audited(observer, run, SeedLedger(run).ledger)
    models = found.table.to_pandas().query("adversary == 'eavesdropper' and holder == 'model'")
    scale = next(iter(run.models.values())).server_std / math.sqrt(2)
    assert twin.model_distance > twin.distance > 0
    assert models["epsilon"].tolist() == [pytest.approx(0.5 * twin.model_distance / scale)]
    assert 0 < models["epsilon"].iloc[0] <= 10.0


def test_a_model_with_laplace_noise_over_noisy_uploads_is_not_measured() -> None:
    private = {
        "kind": "mechanisms",
        "client": {"kind": "gaussian", "epsilon": 5},
        "server": {"kind": "laplace", "epsilon": 5},
    }
    tapped = {"privacy": private, "world.tap.downlink": True, "protocol.rounds": 2}
    observer, run = observed(tapped, clients=(0,), neighbours=("brightest",), twins=1)
    found = audited(observer, run, SeedLedger(run).ledger)
    assert found.table.to_pandas().query("adversary == 'eavesdropper' and holder == 'model'").empty
