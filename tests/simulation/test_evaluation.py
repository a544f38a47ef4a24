"""Evaluation of models: on clients and test sets, in each domain, and of regressions."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from asyncfl import api
from asyncfl.api import simulate
from asyncfl.base.streams import Streams
from asyncfl.learning import make_learner
from asyncfl.results.run_tables import clients_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.evaluation import Evaluator, fairness, regression_quality
from asyncfl.simulation.prepare import streams_of


@pytest.mark.parametrize(
    ("sizes", "loss", "calls"), [((2, 2), 4.5, 1), ((1, 3), (1 + 17 / 3) / 2, 2), ((1, 1, 2), 13 / 3, 3)]
)
def test_every_client_counts_the_same_however_many_samples_it_has(
    sizes: tuple[int, ...], loss: float, calls: int
) -> None:
    """The loss of a sample is its label: 1, 4, 6, 7 and of three clients 1, 4, 8, 8."""
    labels = np.array([1, 4, 6, 7] if len(sizes) == 2 else [1, 4, 8, 8])
    ends = np.cumsum(sizes)
    asked: list[int] = []

    def evaluate(model: Any, images: Any, labels: Any) -> tuple[float, float]:
        asked.append(len(labels))
        return float(np.mean(labels)), 0.0

    data: Any = SimpleNamespace(
        images=labels,
        labels=labels,
        sizes=np.array(sizes),
        clients=len(sizes),
        client=lambda number: (labels[ends[number] - sizes[number] : ends[number]],) * 2,
    )
    learner: Any = SimpleNamespace(evaluate=evaluate)
    assert Evaluator(learner, data).train_loss(np.zeros(1, np.float32)) == pytest.approx(loss)
    assert len(asked) == calls


def test_the_worst_decile_is_the_tenth_that_fares_worst() -> None:
    accuracies, losses = np.linspace(0.05, 1.0, 20), np.linspace(2.0, 0.1, 20)
    found = fairness(losses, accuracies)
    assert found["client_accuracy_worst_decile"] == pytest.approx(0.075)
    assert found["client_loss_worst_decile"] == pytest.approx(1.95)
    assert found["client_accuracy_std"] == pytest.approx(0.05 * math.sqrt((400 - 1) / 12))


def test_accuracies_that_are_not_known_give_none() -> None:
    found = fairness(np.array([1.0, 3.0]), np.array([math.nan, 0.2]))
    assert math.isnan(found["client_accuracy_worst_decile"])
    assert found["client_loss_worst_decile"] == 3.0


def test_the_columns_are_those_of_the_clients_own_data(scenario: Scenario) -> None:
    asked = scenario.override({"evaluation.clients_every": 2})
    rows = simulate_seed(asked, 0).rounds
    assert [math.isnan(row["client_loss_worst_decile"]) for row in rows] == [False, True, False, False]
    data = asked.data.build(Streams(0))
    learner = make_learner(asked.model, asked.training, data.shape, data.classes)
    start = asked.model.initial_parameters(data.shape, data.classes, Streams(0).torch_generator("initial_model"))
    losses = [learner.evaluate(start, *data.client(client))[0] for client in range(5)]
    assert rows[0]["client_loss_worst_decile"] == pytest.approx(max(losses))
    assert rows[0]["client_loss_worst_decile"] >= rows[0]["train_loss"]
    assert max(Evaluator(learner, data).on_clients(start)[:, 0]) == rows[0]["client_loss_worst_decile"]
    assert "client_loss_worst_decile" not in simulate_seed(scenario, 0).rounds[0]


FIVE = ["mnist", "svhn", "usps", "synth_digits", "mnist_m"]
NAMED = [f"test_accuracy_{name}" for name in FIVE]


@pytest.fixture
def domains(scenario: Scenario) -> Scenario:
    return scenario.override({"data.domains": FIVE, "data.test_samples": 20, "evaluation.test_every": 2})


def test_each_domain_has_its_column_and_the_mean_is_plain(domains: Scenario) -> None:
    rounds = simulate(domains).tables["rounds"].to_pandas()
    assert [c for c in rounds if c.startswith("test_accuracy_")] == [
        *NAMED,
        "test_accuracy_domains_mean",
        "test_accuracy_domains_min",
    ]
    tested = rounds[rounds["version"].isin([0, 2, 3])]
    assert rounds.loc[rounds["version"] == 1, [*NAMED, "test_accuracy_domains_mean"]].isna().all(axis=None)
    np.testing.assert_allclose(tested["test_accuracy_domains_mean"], tested[NAMED].mean(axis=1))
    np.testing.assert_allclose(tested["test_accuracy_domains_min"], tested[NAMED].min(axis=1))
    # Equal numbers of test samples: the mean over domains is the mean over samples.
    np.testing.assert_allclose(tested["test_accuracy"], tested["test_accuracy_domains_mean"])


def test_the_table_of_clients_names_the_domain_of_each(domains: Scenario, scenario: Scenario) -> None:
    twice = domains.override({"data.clients": 10})
    table = simulate(twice).tables["clients"].to_pandas()
    assert list(table.columns[:4]) == ["seed", "client", "domain", "samples"]
    assert table["domain"].tolist() == [name for name in FIVE for _ in range(2)]
    seeds = simulate(domains.override({"seeds": 2})).tables["clients"].to_pandas()
    assert seeds["domain"].tolist() == FIVE * 2
    for one in (scenario, scenario.override({"data.domains": ["usps"]})):
        assert "domain" not in simulate(one).tables["clients"].column_names


def test_each_domain_is_judged_on_its_own_test_samples(domains: Scenario) -> None:
    """A model that says 3 to everything is right as often as there are threes."""
    data = domains.data.build(streams_of(domains, 0))
    learner = make_learner(domains.model, domains.training, data.shape, data.classes)
    model = np.zeros(learner.n_parameters, np.float32)
    model[-10 + 3] = 1.0  # the last layer's bias
    judge = Evaluator(learner, data)
    loss, accuracy, shares = judge.test_by_domain(model)
    assert shares == [pytest.approx(np.mean(data.test_of(k)[1] == 3)) for k in range(5)]
    assert (loss, accuracy) == pytest.approx(judge.test(model), rel=1e-6)
    # a domain whose test samples are all in the root set is not tested, and says so
    fewer = dataclasses.replace(data, test_offsets=np.array([0, 20, 20, 60, 80, 100]))
    _, all_alike, shares = Evaluator(learner, fewer).test_by_domain(model)
    assert math.isnan(shares[1])
    assert all_alike == pytest.approx(accuracy)


def test_each_client_s_loss_is_that_of_its_last_task(domains: Scenario) -> None:
    run = simulate_seed(domains, 0)
    losses = clients_table(run)["train_loss"].to_numpy()
    last = {one.client: one.loss for one in run.models[3].uploads}
    assert losses.tolist() == [last[client] for client in range(5)]
    assert (losses > 0).all()
    assert len(set(losses)) == 5
    assert np.isnan(clients_table(simulate_clock(domains, 0))["train_loss"].to_numpy()).all()


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
