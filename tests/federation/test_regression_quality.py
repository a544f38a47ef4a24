"""Federations that predict numbers: quality, features, and refused settings."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from asyncfl import api
from asyncfl.base.streams import Streams
from asyncfl.federation.evaluation import regression_quality
from asyncfl.scenario import Scenario

DIABETES = {
    "data": {"dataset": "diabetes", "clients": 4, "samples_per_client": 80},
    "model": {"kind": "linear"},
    "training": {"lr": 0.05, "batch_size": 20, "epochs": 5},
    "protocol": {"kind": "sync", "rounds": 10},
}


def described(**changes: object) -> Scenario:
    return Scenario.read(DIABETES).override(changes)


@pytest.mark.parametrize("outputs", [1, 3])
def test_quality_is_that_of_scikit_learn(outputs: int) -> None:
    rng = np.random.default_rng(0)
    wanted, found = rng.normal(size=(2, 40, outputs))
    quality = regression_quality(found, wanted)
    assert quality["test_r2"] == pytest.approx(r2_score(wanted, found), abs=1e-9)
    assert quality["test_mae"] == pytest.approx(mean_absolute_error(wanted, found), abs=1e-9)


def test_of_equal_labels_nothing_can_be_explained() -> None:
    labels = np.array([[1, 2], [1, 3]], np.float32)
    assert math.isnan(regression_quality(labels + 1, labels)["test_r2"])
    assert regression_quality(labels + 1, labels)["test_mae"] == 1


def test_a_federation_comes_as_near_as_least_squares_on_all_data() -> None:
    scenario = described()
    run = api.simulate(scenario)
    data = scenario.data.build(Streams(0))
    oracle = LinearRegression().fit(data.images, data.labels)
    answered = oracle.predict(data.test_images)
    last = run.rounds.iloc[-1]
    assert last["test_r2"] == pytest.approx(r2_score(data.test_labels, answered), abs=0.03)
    assert last["test_mae"] == pytest.approx(mean_absolute_error(data.test_labels, answered), abs=0.03)
    assert last["test_loss"] == pytest.approx(mean_squared_error(data.test_labels, answered), abs=0.03)
    assert run.rounds["test_accuracy"].isna().all()


def test_a_regression_can_be_attacked_defended_private_and_audited() -> None:
    scenario = described(
        **{
            "model": {"kind": "mlp", "hidden": [4]},
            "training": {"lr": 0.02, "example_clip": 1.0, "example_noise": 1.0},
            "privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0},
            "data.canaries": {"count": 6},
            "threats": {"attackers": 1, "attack": {"kind": "sign_flip"}},
            "defence": {"root_samples": 10, "detector": {"kind": "zeno++"}, "rule": {"kind": "median"}},
            "evaluation": {"keep": "best", "clients_every": 5, "audit": {"clients": 1, "twins": 7}},
            "protocol.rounds": 5,
        }
    )
    run = api.simulate(scenario)
    [kept] = run.models
    rounds = run.rounds.set_index("version")
    assert kept[1] == rounds["test_loss"].idxmin()
    assert rounds["client_loss_worst_decile"].notna().sum() == 2
    assert rounds["client_accuracy_worst_decile"].isna().all()
    assert set(run.audit["kind"]) == set(scenario.evaluation.audit.neighbours) - {""}
    assert (run.audit["label"] == -1).all()
    [worst] = run.audit.loc[run.audit["kind"] == "mislabelled", "sensitivity_share"].head(1)
    assert 0 < worst <= 1 + 1e-6
    again = api.simulate(scenario)
    assert again.rounds.equals(run.rounds)


@pytest.mark.parametrize("kind", ["mislabelled", "noise"])
@pytest.mark.parametrize("unit", ["sample", "client"])
def test_canaries_of_a_regression_have_extreme_labels(kind: str, unit: str) -> None:
    plain, planted = (
        described(**changes).data.build(Streams(0))
        for changes in ({}, {"data.canaries": {"count": 4, "unit": unit, "kind": kind}})
    )
    changed = (plain.labels != planted.labels)[:, 0]
    assert changed.any()
    low, high = plain.labels.min(), plain.labels.max()
    assert planted.labels[changed].min() >= low
    if kind == "mislabelled":
        middle = (low + high) / 2
        ends = np.where(plain.labels[changed] > middle, low, high)
        np.testing.assert_array_equal(planted.labels[changed], ends)
    else:
        assert planted.labels[changed].max() <= high
