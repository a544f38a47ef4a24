"""Preparation of a seed: data, model and attackers are the same each time."""

import numpy as np
import pytest

from asyncfl.federation.prepare import attackers_of
from asyncfl.federation.resolve import streams_of
from asyncfl.scenario import Scenario
from asyncfl.simulation import prepared, simulate_seed


def test_a_federation_is_the_same_each_time_and_another_for_another_seed(scenario: Scenario) -> None:
    first, again, other = (prepared(scenario, seed) for seed in (0, 0, 1))
    assert (first.data.images == again.data.images).all()
    assert (first.plan.initial == again.plan.initial).all()
    assert (first.plan.initial != other.plan.initial).any()
    assert first.path.context == again.path.context


def test_seeding_apart_keeps_the_clock_while_the_training_changes(scenario: Scenario) -> None:
    apart = scenario.override({"seeding.clock": 3, "seeding.data": 3})
    first, other = simulate_seed(apart, 0), simulate_seed(apart, 1)
    assert [row["time_s"] for row in first.rounds] == [row["time_s"] for row in other.rounds]
    assert first.rounds[-1]["train_loss"] != other.rounds[-1]["train_loss"]


@pytest.mark.parametrize("threats", [None, {"attack": {"kind": "sign_flip"}, "attackers": 0}])
def test_no_attackers_without_threats(scenario: Scenario, threats: object) -> None:
    quiet = scenario.override({"threats": threats})
    assert attackers_of(quiet, streams_of(quiet, 0)) is None


def test_a_pool_of_attackers_is_drawn_from_the_seed(scenario: Scenario) -> None:
    attacked = scenario.override({"threats": {"attack": {"kind": "sign_flip"}, "attackers": 2}})
    pools = [attackers_of(attacked, streams_of(attacked, seed)) for seed in (0, 0, 1, 2, 3)]
    members = [sorted(pool.members) for pool in pools if pool is not None]
    assert members[0] == members[1]
    assert len(np.unique(members, axis=0)) > 1
    assert {len(pool) for pool in members} == {2}


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
