"""Accuracy in each domain of a federation, from the model to the table of rounds."""

import dataclasses
import math

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.federation import clients_table
from asyncfl.federation.evaluation import Evaluator
from asyncfl.federation.prepare import streams_of
from asyncfl.learning import make_learner
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed

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
