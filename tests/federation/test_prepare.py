"""Preparation of a seed: data, model and attackers are the same each time."""

from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import ResolvedSeed, privacy_context
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed


def test_seeding_apart_keeps_the_clock_while_the_training_changes(scenario: Scenario) -> None:
    apart = scenario.override({"seeding.clock": 3, "seeding.data": 3})
    first, other = simulate_seed(apart, 0), simulate_seed(apart, 1)
    assert [row["time_s"] for row in first.rounds] == [row["time_s"] for row in other.rounds]
    assert first.rounds[-1]["train_loss"] != other.rounds[-1]["train_loss"]


def test_runs_of_one_seed_share_their_noise_unless_noise_seed_differs(scenario: Scenario) -> None:
    """u + z and u + 2z give the clean update as 2 (u + z) - (u + 2z)."""
    scheme = {"kind": "dp_fedavg", "clip_norm": 1.0}
    changes = {"evaluation.keep": "last", "protocol.rounds": 1}
    models = {}
    for name, z, noise_seed in (("once", 3.0, None), ("twice", 6.0, None), ("anew", 6.0, 7), ("clean", 1e-9, None)):
        run = simulate_seed(
            scenario.override({**changes, "privacy": {**scheme, "noise_multiplier": z}, "noise_seed": noise_seed}), 0
        )
        (models[name],) = run.kept.values()
        assert any("noise_seed" in note for note in run.notes)
    subtracted = 2 * models["once"] - models["twice"]
    np.testing.assert_allclose(subtracted, models["clean"], atol=1e-4)
    anew = 2 * models["once"] - models["anew"]
    spread = (models["once"] - models["clean"]).std()
    # Twice the one noise less the other, which is twice as strong: sqrt(8) times the one.
    assert (anew - models["clean"]).std() == pytest.approx(8**0.5 * spread, rel=0.1)


EQUAL, UNEQUAL = [20, 20, 20, 20, 20], [20, 20, 20, 20, 21]
BUFFERED = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
ONE = {"kind": "fedasync", "rounds": 3, "in_flight": 4}


def context(scenario: Scenario, changes: dict[str, Any], sizes: list[int]) -> PrivacyContext:
    return privacy_context(ResolvedSeed(scenario.override(changes), 0, 2), np.array(sizes))


@pytest.mark.parametrize(
    ("changes", "sizes", "fixed", "equal", "once"),
    [
        ({}, EQUAL, True, True, True),
        ({}, UNEQUAL, True, False, False),
        ({"protocol.weighting": "uniform"}, UNEQUAL, True, True, True),
        ({"protocol.late": "carry"}, EQUAL, True, True, False),
        ({"defence.rule": {"kind": "median"}}, EQUAL, False, False, False),
        ({"defence.detector": {"kind": "kardam"}}, EQUAL, False, False, False),
        ({"training.deadline_s": 5.0}, EQUAL, True, True, True),
        ({"training.deadline_s": 5.0, "protocol.partial_work": "work"}, EQUAL, True, False, False),
        ({"protocol.partial_work": "work"}, EQUAL, True, True, True),
        ({"protocol": BUFFERED}, EQUAL, True, True, False),
        ({"protocol": BUFFERED, "protocol.weighting": "samples"}, UNEQUAL, True, False, False),
        ({"protocol": BUFFERED, "protocol.staleness": {"kind": "polynomial"}}, EQUAL, True, True, False),
        (
            {"protocol": BUFFERED, "protocol.staleness": {"kind": "polynomial"}, "protocol.divisor": "weight_sum"},
            EQUAL, True, False, False,
        ),
        (
            {"protocol": BUFFERED, "protocol.staleness": {"kind": "constant"}, "protocol.divisor": "weight_sum"},
            EQUAL, True, True, False,
        ),
        ({"protocol": ONE}, EQUAL, True, True, True),
    ],
)  # fmt: skip
def test_bounds_on_weights_follow_from_the_protocol(
    scenario: Scenario, changes: dict[str, Any], sizes: list[int], fixed: bool, equal: bool, once: bool
) -> None:
    found = context(scenario, changes, sizes)
    assert (found.fixed_weights, found.equal_weights, found.once_each) == (fixed, equal, once)
