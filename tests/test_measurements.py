"""The versions that are evaluated: numbers that are given, and those that `auto` stands for, worked out by hand."""

import numpy as np
import pytest

from asyncfl import Scenario, simulate
from asyncfl.base.errors import ScenarioError
from asyncfl.measurements import Schedule, affordable_interval

SMALL = {
    "data": {"clients": 20, "samples_per_client": 100, "source": "embedded", "test_samples": 1000},
    "protocol": {"kind": "buffered", "rounds": 400, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 10}},
}


def schedule(**changes: object) -> Schedule:
    return Scenario.read(SMALL).override(changes).evaluation_schedule


@pytest.mark.parametrize(
    ("evaluated", "trained", "versions", "interval"),
    [
        (3000, 500, 400, 20),  # 3000 / (0.1 * 3 * 500) = 20: evaluation costs exactly a tenth
        (3001, 500, 400, 21),
        (150, 500, 400, 1),
        (0, 500, 400, 1),
        (60_000, 500, 400, 40),  # 400 would be needed, but the run has ten intervals
        (60_000, 500, 19, 1),
        (60_000, 500, 20, 2),
    ],
)
def test_interval_costs_a_tenth_of_training_but_leaves_ten_intervals(evaluated, trained, versions, interval):
    assert affordable_interval(evaluated, trained, versions) == interval


def test_auto_intervals_share_the_budget():
    # 20 clients x 100 + 1000 test samples of a version made of 5 updates of 100 samples: 3000 / (0.3 * 500)
    assert schedule() == Schedule(train_every=20, test_every=20, clients_every=0, last=400)
    assert schedule(**{"training.epochs": 4}) == (5, 5, 0, 400)
    # 1000 / 150 = 6.67
    assert schedule(**{"evaluation.train_every": 0}) == (0, 7, 0, 400)
    # 5000 / 150 = 33.3
    assert schedule(**{"evaluation.clients_every": "auto"}) == (34, 34, 34, 400)
    assert schedule(**{"evaluation.test_every": 3, "evaluation.train_every": 8}) == (8, 3, 0, 400)


def test_test_set_of_the_data_set_counts_where_the_scenario_gives_no_number():
    # 2000 stand-ins and 2000 samples of clients: 4000 / 150 = 26.7
    assert schedule(**{"data.test_samples": None}).test_every == 27


def test_each_client_tests_its_own_model_with_personal_layers():
    # 20 x 1000 + 2000: 22,000 / 150 = 147, more than 400 / 10
    assert schedule(**{"model.personal": ["3.*"]}).test_every == 40


@pytest.mark.parametrize(
    "ends",
    [
        {"protocol.time_limit_s": 10.0},
        {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0, "clip_norm": 1.0, "stop_at": {"epsilon": 30.0}}},
    ],
)
def test_auto_evaluates_each_version_of_a_run_that_may_end_early(ends):
    assert schedule(**ends) == (1, 1, 0, 400)


def test_a_run_is_named_by_the_versions_that_it_evaluates():
    auto = Scenario.read(SMALL)
    given = auto.override({"evaluation.test_every": 20, "evaluation.train_every": 20})
    each = auto.override({"evaluation.test_every": 1, "evaluation.train_every": 1})
    assert auto.digest() == given.digest() != each.digest()
    assert auto.resolved() == given.resolved()
    # A run of so few versions evaluates each, as all runs once did by default.
    few = auto.override({"protocol.rounds": 19})
    assert few.digest() == each.override({"protocol.rounds": 19}).digest()


def test_auto_is_refused_where_evaluation_takes_simulated_time():
    said = r"evaluation.test_every: must be a number where evaluation takes time \(world.evaluate_s is 0.5\), got auto"
    with pytest.raises(ScenarioError, match=said):
        schedule(**{"world.evaluate_s": 0.5})
    assert schedule(**{"world.evaluate_s": 0.5, "evaluation.test_every": 2}).test_every == 2


def test_auto_evaluates_the_first_the_last_and_each_version_that_is_due():
    changes = {"data.clients": 4, "protocol.rounds": 25, "data.samples_per_client": 5, "model.hidden": [4]}
    changes |= {"protocol.buffer": 2, "protocol.dispatch.in_flight": 4}
    rounds = simulate(Scenario.read(SMALL).override(changes)).rounds
    tested = rounds.loc[~np.isnan(rounds["test_loss"]), "version"].tolist()
    assert tested == rounds.loc[~np.isnan(rounds["train_loss"]), "version"].tolist()
    assert tested == [*range(0, 25, 2), 25]
