"""The lab for detectors: its federations, and what it tells of detectors that do harm, nothing, or what they should."""

import math
from collections import Counter
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.defences import Detector, Evidence, Verdict, accept_all
from asyncfl.extras.stress import trials as lab
from asyncfl.extras.stress.stress_test import BUFFERS, MOST_LOST, NOISES, SHARES, SKEWS, StressCase, StressReport
from asyncfl.extras.stress.trials import ATTACKS, Trial, TrialClients, TrialResult, run_trial
from asyncfl.testing import check_detector, stress, stress_grid

CAPTURED = Trial("Dirichlet 1", "Min-Max", 0.4, buffer=40, noise="strong")
"""Attackers are loud and alike, the honest faint and unlike."""
SIDED = Trial("shards", "blind minority", 0.48, buffer=40, noise="none", clients=100, turns=24)
"""Attackers and the few honest clients that hold one class look like a majority."""


class Innocent(Detector):
    kind: Literal["tests:Innocent"] = "tests:Innocent"

    def judge(self, state, buffer, scores):
        return accept_all(buffer), state


class Harsh(Innocent):
    """Strikes the first ten clients."""

    def judge(self, state, buffer, scores):
        first = buffer.clients < 10
        return Verdict(first, first), state


def made(gains, trial=None, banned=0, honest=36):
    """Federations of a cell that gain so many of the 400 test samples."""
    trial = trial or Trial("shards", "mimic", 0.1)
    result = TrialResult(trial, honest, 4, banned, 0, 480, *(0,) * 5, accuracy=0.5)
    return tuple(
        StressCase(replace(result, trial=replace(trial, seed=seed)), 0.5 - gain / lab.TESTED, 0.5)
        for seed, gain in enumerate(gains)
    )


def test_one_point_of_accuracy_and_one_client_in_a_thousand_are_allowed() -> None:
    point = lab.TESTED // 100
    assert point == lab.TESTED * MOST_LOST
    attacked = Trial("IID", "IPM", 0.4)

    def report(*gains, banned=0, trial=attacked):
        return StressReport(made(gains, trial, banned=banned, honest=1000))

    assert report(-point, banned=1).violations == ()
    assert len(report(-point, banned=2).violations) == 1
    assert report(0, banned=1, trial=Trial()).violations == (
        "without attackers no client may be banned; it banned 1 of 1000",
    )


# --- the federations -------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_the_loss():
    random = np.random.default_rng(0)
    model = lab.initial_model(Streams(0)).astype(np.float64)
    images, labels = random.random((1, 7, lab.PIXELS)) - 0.5, random.integers(0, 10, (1, 7))

    def loss(weights):
        one, first, two, second = lab._layers(weights[None])
        scores = np.maximum(images @ one + first, 0) @ two + second
        norms = np.log(np.exp(scores).sum(axis=2))
        return float((norms - np.take_along_axis(scores, labels[:, :, None], axis=2)[:, :, 0]).mean())

    found = lab.gradients(model[None], images, labels)[0]
    for place in (3, 700, 1030, 1100, 1205):
        step = np.zeros_like(model)
        step[place] = 1e-5
        assert found[place] == pytest.approx((loss(model + step) - loss(model - step)) / 2e-5, abs=1e-4)


def test_trials_are_reproducible_and_attackers_attack():
    assert run_trial(CAPTURED) == run_trial(CAPTURED)
    assert run_trial(Trial("IID", "sign flip", 0.4)).accuracy < run_trial(Trial("IID")).accuracy - 0.2
    clients = TrialClients(Trial("IID", "flooding", 0.25))
    drawn = Counter(clients.malicious[clients.next_clients(np.ones(40, bool))].sum() for _ in range(40))
    assert np.average(list(drawn), weights=list(drawn.values())) > 5


def test_a_ban_leaves_the_random_draws_of_other_clients_unchanged():
    """So that what a detector gains is a difference of pairs: batches and noise are those of a client's turn."""
    models = [lab.initial_model(Streams(0))]
    one, other = TrialClients(Trial()), TrialClients(Trial())
    one.buffer(np.array([0, 1, 2, 1]), models)
    other.buffer(np.array([5, 1, 1]), models)
    first, second = one.buffer(np.array([3, 1]), models), other.buffer(np.array([1, 4, 3]), models)
    np.testing.assert_array_equal(first.deltas, second.deltas[[2, 0]])
    assert not (first.deltas[1] == one.buffer(np.array([1]), models).deltas[0]).any()


def test_every_pair_of_settings_occurs_in_the_grid():
    grid = stress_grid()
    assert len(grid) == len(set(grid)) == 3 * len(SKEWS) + len(SKEWS) * len(ATTACKS)
    attacked = [trial for trial in grid if trial.attack]
    assert {(trial.buffer, trial.noise) for trial in attacked} == {(b, n) for b in BUFFERS for n in NOISES}
    assert {(trial.skew, trial.attack) for trial in attacked} == {(s, a) for s in SKEWS for a in ATTACKS}
    assert {trial.share for trial in attacked} == set(SHARES)
    assert sum(trial.clients - trial.attackers for trial in grid) >= 3000
    several = stress_grid(3)
    assert len({trial.seed for trial in several}) == 3 * len(grid)
    assert stress_grid(first=2) == several[2 * len(grid) :]
    assert {replace(trial, seed=0) for trial in several} == {replace(trial, seed=0) for trial in grid}


# --- what it tells ---------------------------------------------------------------------------------------------------


def test_evidence_does_no_harm_where_attackers_look_like_the_majority():
    report = stress(Evidence(), trials=[CAPTURED])
    assert (report.honest_banned, report.violations) == (0, ())


def test_attackers_that_side_with_an_honest_minority_get_no_honest_client_banned():
    """48 % of 100 clients know public samples only. The honest have two classes each and send no noise; by a bar that
    these attackers raise, a detector bans 27 and 36 of them."""
    results = [run_trial(replace(SIDED, seed=seed), Evidence()) for seed in (0, 4)]
    assert [(result.honest_banned, result.honest) for result in results] == [(0, 52), (0, 52)]


def test_evidence_finds_attackers_where_there_is_a_signal():
    """40 % that flip signs are left out once they stand apart; one in ten that oppose the mean are banned."""
    many, few = Trial("IID", "sign flip", 0.4), Trial("IID", "IPM", 0.1, noise="none")
    report = stress(Evidence(), trials=[many, few])
    assert report.honest_banned == 0
    flips, ipm = report.cases
    assert flips.result.attacks_flagged > 0.3 * flips.result.attacks_judged
    assert flips.gained > 0.1
    assert ipm.result.attackers_banned == 4
    assert ipm.gained > 0
    assert flips.result.honest_flagged == ipm.result.honest_flagged == 0


def test_the_success_of_a_backdoor_stands_beside_the_accuracy():
    """A boosted backdoor succeeds under the mean, which keeps its accuracy; without one there is no success."""
    trials = [Trial("IID", "boosted backdoor", 0.25, noise="none"), Trial("IID", "sign flip", 0.25, turns=4)]
    report = stress(Innocent(), trials=trials)
    backdoor, flip = report.cases
    assert backdoor.result.attack_success == backdoor.mean_success > 0.8
    assert math.isnan(flip.result.attack_success)
    assert report.rows.loc["boosted backdoor", "attack_success"] == backdoor.mean_success
    assert math.isnan(report.rows.loc["sign flip", "mean_success"])
    assert report.rows.loc["all", "mean_success"] == backdoor.mean_success
    clean = run_trial(Trial("IID", noise="none"))
    assert math.isnan(clean.attack_success)


def test_counts_add_up_over_federations():
    report = stress(Innocent(), trials=[Trial("IID", "sign flip", 0.25), Trial("shards", buffer=40)])
    row = report.rows.loc["all"]
    assert (row.honest, row.attackers, row.honest_banned) == (30 + 40, 10, 0)
    assert (row.honest_flagged, row.unjudged, row.gained, row.worst) == (0, 0, 0, 0)
    assert list(report.rows.index) == ["no attack", "sign flip", "IID", "shards", "all"]
    # Clients of one federation are no independent cases. Harm in none of 2 federations: 1 - .05^(1/2).
    assert report.most_harmed == pytest.approx(1 - 0.05**0.5)
    assert math.isnan(report.rows.loc["no attack", "attacks_flagged"])
    assert report.violations == ()


def test_attacks_that_a_detector_abstains_on_are_not_flagged():
    # 93 malicious updates: 73 judged and flagged, 20 not judged; of 200 honest ones 100 judged, 5 of them flagged.
    trial = Trial("IID", "sign flip", 0.4)
    counts = {"honest_judged": 100, "honest_flagged": 5, "attacks_judged": 73, "attacks_flagged": 73}
    counts |= {"honest_unjudged": 100, "attacks_unjudged": 20}
    result = TrialResult(trial, 24, 16, 0, 0, **counts, accuracy=0.5)
    row = StressReport((StressCase(result, 0.5, 0.5),)).rows.loc["all"]
    assert row["attacks_flagged"] == pytest.approx(73 / 93)
    assert row["attacks_flagged_judged"] == 1
    assert row["honest_flagged"] == pytest.approx(5 / 200)
    assert row["unjudged"] == pytest.approx(120 / 293)


def test_unjudged_updates_of_a_trial_are_honest_or_attacks():
    # The first buffers tell Evidence too little, whoever sent the updates.
    result = run_trial(Trial("IID", "sign flip", 0.4, turns=4), Evidence())
    assert result.honest_unjudged > 0
    assert result.attacks_unjudged > 0
    sent = result.honest_judged + result.honest_unjudged + result.attacks_judged + result.attacks_unjudged
    assert sent == result.trial.versions * result.trial.buffer


def test_a_cell_is_behind_where_its_t_interval_is():
    """Mean -5 points, deviation 1.25, t of two degrees of freedom 4.3027: -8.1 to -1.9."""
    report = StressReport(made([-15, -20, -25]) + made([-4, 4, 0], Trial("IID")))
    behind, even = report.cells.itertuples()
    assert (behind.federations, behind.gained) == (3, pytest.approx(-0.05))
    assert (behind.low, behind.high) == pytest.approx((-0.05 - 0.031052, -0.05 + 0.031052), abs=1e-5)
    assert even.low < 0 < even.high
    law = "in no cell accuracy may be more than 1 point below that of the plain mean; it is 5.0 points below"
    assert f"{law}, at least 1.9 with 95 % (shards, mimic by 10 %, buffer 10, noise usual)" in report.violations
    text = " ".join(report.summary)
    assert "3 of 6 federations end more than 1 point below the plain mean." in text
    assert (
        "1 of 2 cells are more than 1 point below it on average over their seeds, 1 of them with 95 %; of 2 it" in text
    )
    single = StressReport(made([-20]))
    assert math.isnan(single.cells["low"].iloc[0])
    assert "cells" not in " ".join(single.summary)


def test_check_detector_names_the_harm():
    trials = [replace(CAPTURED, attack=None, share=0.0, turns=3)]
    check_detector(Innocent(), trials=trials, must_find=None)
    with pytest.raises(
        AssertionError, match=r"Harsh: must do no harm; at most 0.1% .* without attackers no client may"
    ):
        check_detector(Harsh(), trials=trials, must_find=None, depends_on=("numbering",))
