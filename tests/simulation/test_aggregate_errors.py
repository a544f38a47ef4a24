import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Buffer, Detector, Verdict
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.aggregate_errors import aggregate_error


class KnowsLong(Detector):
    """Flags updates more than twice as long as the shortest, such as flipped updates of three times the length."""

    kind: str = f"{__name__}:KnowsLong"

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        lengths = np.linalg.norm(buffer.deltas, axis=1)
        return Verdict(lengths > 2 * np.min(lengths), np.zeros(len(buffer), dtype=bool)), state


def measured(*args: Any) -> tuple[float, float, float]:
    found = aggregate_error(*(np.asarray(one) for one in args))
    return found["aggregate_error"], found["honest_spread"], found["attackers_weight"]


def test_errors_are_squared_distances_from_the_weighted_mean_of_the_honest() -> None:
    updates = [[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]]
    # The mean of the first two by 3 to 1 is (1, 0), their spread (3 * 1 + 1 * 9) / 4.
    assert measured(updates, [3.0, 1.0, 4.0], [False, False, True], [1.0, 2.0]) == pytest.approx((4.0, 3.0, 0.5))


@given(attackers=st.integers(1, 20), others=st.integers(1, 40))
def test_a_rule_that_follows_the_majority_meets_the_bound_on_the_buffer_that_proves_it(
    attackers: int, others: int
) -> None:
    n = 2 * attackers + others
    updates = np.zeros((n, 1))
    updates[:attackers] = 1.0
    silent = np.zeros(n, dtype=bool)
    silent[-attackers:] = True
    # Those at 1 are honest, and as many attackers hide among those at 0: where the median is.
    error, spread, share = measured(updates, np.ones(n), silent, [0.0])
    assert error / spread == pytest.approx(share / (1 - 2 * share)) == pytest.approx(attackers / (n - 2 * attackers))


def test_the_mean_without_attackers_is_off_by_rounding_alone(scenario: Scenario) -> None:
    rows = simulate_seed(scenario.override({"evaluation.aggregates": True}), 0).rounds
    assert math.isnan(rows[0]["aggregate_error"])
    assert math.isnan(rows[0]["attackers_weight"])
    for row in rows[1:]:
        assert row["aggregate_error"] < 1e-9 * row["honest_spread"]
        assert row["attackers_weight"] == pytest.approx(0)
    assert "aggregate_error" not in simulate_seed(scenario, 0).rounds[0]


def test_aggregate_errors_ignore_server_noise_and_rate(scenario: Scenario) -> None:
    attacked = scenario.override(
        {
            "evaluation.aggregates": True,
            "threats": {"attack": {"kind": "sign_flip", "factor": 3.0}, "attackers": 0.4},
            "protocol": {"kind": "fedbuff", "rounds": 1, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 5}},
        }
    )
    [_, row] = simulate_seed(attacked, 0).rounds
    assert row["attackers_weight"] == pytest.approx(0.4)
    assert row["aggregate_error"] > row["honest_spread"]
    [_, slower] = simulate_seed(attacked.override({"protocol.server_rate": 0.5}), 0).rounds
    assert slower["aggregate_error"] == pytest.approx(row["aggregate_error"], rel=1e-4)
    at_the_server = {"kind": "dp_fedavg", "clip_norm": 100.0, "noise_multiplier": 1.0, "noise_at": "server"}
    [_, noisy] = simulate_seed(attacked.override({"privacy": at_the_server}), 0).rounds
    assert noisy["sigma_d"] > 0
    assert noisy["aggregate_error"] == pytest.approx(row["aggregate_error"], rel=1e-4)


def test_flagged_attackers_count_in_the_weight_but_not_in_the_aggregate(scenario: Scenario) -> None:
    flipped = {"attack": {"kind": "sign_flip", "factor": 3.0}, "attackers": 0.4}
    attacked = scenario.override({"evaluation.aggregates": True, "threats": flipped, "protocol.rounds": 1})
    [_, row] = simulate_seed(attacked.override({"defence.detector": {"kind": f"{__name__}:KnowsLong"}}), 0).rounds
    assert row["attackers_weight"] == pytest.approx(0.4)
    assert row["aggregate_error"] < 1e-9 * row["honest_spread"]


class Repairs(Detector):
    """Halves the weight of all updates, and moves the model by something that is not of this buffer."""

    kind: str = f"{__name__}:Repairs"

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        none = np.zeros(len(buffer), dtype=bool)
        repair = np.full(len(buffer.current), 0.25, np.float32)
        return Verdict(none, none, weights=np.full(len(buffer), 0.5), correction=repair), state


def test_corrections_and_lower_weights_are_no_aggregate_error(scenario: Scenario) -> None:
    told = {"evaluation.aggregates": True, "defence.detector": {"kind": f"{__name__}:Repairs"}, "protocol.rounds": 3}
    for row in simulate_seed(scenario.override(told), 0).rounds[1:]:
        assert row["aggregate_error"] < 1e-6 * row["honest_spread"]
