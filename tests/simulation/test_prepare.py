"""Preparation of a seed, and the runs before a run: exposures measured on the clock, and data that runs share."""

import sys
from typing import Any

import numpy as np
import pytest

from asyncfl.privacy import PrivacyContext
from asyncfl.results.run_tables import clients_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, prepared, simulate_clock, simulate_seed
from asyncfl.simulation.prepare import ResolvedSeed, privacy_context, resolve


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


TAPPED: dict[str, Any] = {
    "protocol.rounds": 8,
    "protocol.participants": 2,
    "world.tap": {"uplink": True, "packet_loss": 0.0},
    "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "exposures": {"kind": "measured", "replicates": 9}},
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
}


@pytest.mark.parametrize("clock", [None, 0, 7])
def test_replicates_have_clocks_of_their_own_whatever_the_seed_of_the_clock(
    scenario: Scenario, clock: int | None
) -> None:
    run = simulate_seed(scenario.override(TAPPED | {"seeding.clock": clock}), 0)
    assert len(set(run.resolved.calibration)) > 1
    assert run.context is not None
    assert run.context.exposures == max(run.resolved.calibration)


@pytest.mark.parametrize(
    ("quantile", "exposures"),
    [(None, 9), (1.0, 9), (0.75, 4), (0.5, 3), (0.51, 4), (0.001, 2), (0.25, 2), (3.75e-10, 2), (2.25e-10, 1)],
)
def test_the_quantile_of_replicate_counts_is_rounded_up(
    scenario: Scenario, quantile: float | None, exposures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1, 2, 3, 4, 9 the quarters are 2, 3, 4; where one falls on a count, to 1e-9, it is that count."""
    measured = {"kind": "measured", "replicates": 5, "quantile": quantile}
    asked = scenario.override({**TAPPED, "privacy.exposures": measured})
    monkeypatch.setattr(sys.modules[resolve.__module__], "_overheard", lambda *_: (4, 1, 9, 3, 2))
    found = resolve(asked, 3, SimulatedRuns())
    assert (found.exposures, found.calibration, found.seed) == (exposures, (4, 1, 9, 3, 2), 3)
    plain = resolve(scenario, 3, SimulatedRuns())
    assert plain.calibration == ()


MEASURED: dict[str, Any] = {
    "world.tap": {"uplink": True},
    "privacy": {
        "kind": "nbafl",
        "epsilon": 60.0,
        "clip_norm": 5.0,
        "exposures": {"kind": "measured", "replicates": 2},
        "stop_at": {"epsilon": 90.0, "accountant": "naive"},
    },
}


class Asked(SimulatedRuns):
    """Counts its calls, and reports one exposure."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        self.asked += 1
        return 1


def test_prior_runs_are_requested_from_the_callers_object(scenario: Scenario) -> None:
    measured = scenario.override(MEASURED)
    for begins in (prepared, simulate_seed, simulate_clock):
        prior = Asked()
        begins(measured, 0, prior=prior)  # type: ignore[operator]
        assert prior.asked == 2
    run = simulate_seed(measured.override({"privacy.stop_at": None}), 0)
    assert (run.resolved.calibration, run.context.exposures) == ((3, 3), 3)  # type: ignore[union-attr]
    assert clients_table(run)["exposures_up"].to_pylist() == [3] * 5
    alone, given = simulate_clock(measured, 0), simulate_clock(measured, 0, Asked())
    assert alone.spent is not None
    assert given.spent is not None
    assert len(given.spent) == 5 > len(alone.spent), "less noise is asked for where less is overheard"


@pytest.mark.parametrize("kind", ["label_flip", "backdoor", "evaluator_bait"])
def test_runs_share_samples_that_none_of_them_changes(scenario: Scenario, kind: str) -> None:
    attacked = scenario.override({"threats": {"attack": {"kind": kind}, "attackers": 0.4}})
    shared = SimulatedRuns()
    data = prepared(scenario, 0, shared).data
    before = [array.tobytes() for array in (data.images, data.labels, data.test_images, data.test_labels)]
    both = [simulate_seed(attacked, 0, prior=prior) for prior in (shared, None)]
    assert prepared(attacked, 0, shared).data is data
    assert [array.tobytes() for array in (data.images, data.labels, data.test_images, data.test_labels)] == before
    assert repr([list(run.rounds) for run in both[:1]]) == repr([list(run.rounds) for run in both[1:]])
    for other, seed in ((scenario, 1), (scenario.override({"data.partition": {"kind": "dirichlet"}}), 0)):
        assert prepared(other, seed, shared).data is not data
