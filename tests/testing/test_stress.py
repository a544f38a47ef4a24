"""The lab for detectors: its federations, and what it tells of detectors that do harm, nothing, or what they should."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from asyncfl.defences import Detector, Evidence, Spectral, Verdict, accept_all
from asyncfl.streams import Streams
from asyncfl.testing import check_detector, digits, stress, stress_grid
from asyncfl.testing.stress import BUFFERS, NOISES, SHARES, SKEWS
from asyncfl.testing.trials import ATTACKS, Trial, TrialClients, play

CAPTURED = Trial("Dirichlet 1", "Min-Max", 0.4, buffer=40, noise="strong")
"""Attackers are loud and alike, the honest faint and unlike."""


class Innocent(Detector):
    kind: Literal["tests:Innocent"] = "tests:Innocent"

    def judge(self, state, buffer, scores):
        return accept_all(buffer), state


class Harsh(Innocent):
    """Strikes the first ten clients."""

    def judge(self, state, buffer, scores):
        first = buffer.clients < 10
        return Verdict(first, first), state


# --- the federations -------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_the_loss():
    random = np.random.default_rng(0)
    model = digits.initial_model(Streams(0)).astype(np.float64)
    images, labels = random.random((1, 7, digits.PIXELS)) - 0.5, random.integers(0, 10, (1, 7))

    def loss(weights):
        one, first, two, second = digits._layers(weights[None])
        scores = np.maximum(images @ one + first, 0) @ two + second
        norms = np.log(np.exp(scores).sum(axis=2))
        return float((norms - np.take_along_axis(scores, labels[:, :, None], axis=2)[:, :, 0]).mean())

    found = digits.gradients(model[None], images, labels)[0]
    for place in (3, 700, 1030, 1100, 1205):
        step = np.zeros_like(model)
        step[place] = 1e-5
        assert found[place] == pytest.approx((loss(model + step) - loss(model - step)) / 2e-5, abs=1e-4)


@pytest.mark.parametrize("skew", SKEWS)
def test_everybody_holds_samples_of_their_own(skew):
    held = digits.shared_out(skew, 40, Streams(1))
    assert held.sizes.min() >= 1
    assert held.sizes.sum() == 40 * digits.SAMPLES
    assert len(held.root[1]) == digits.ROOT
    classes = np.mean([len(set(labels.tolist())) for labels in held.labels])
    assert classes <= {"shards": 4, "Dirichlet .1": 5}.get(skew, 10)
    assert classes >= {"IID": 9.5, "domains": 9.5}.get(skew, 0)


def test_samples_are_digits_each_moved_by_a_pixel_one_way():
    images, labels = digits._all_digits()
    rolled = [np.roll(images, move, axis=(2, 3)) for move in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))]
    known = {image.tobytes(): label for copy in rolled for image, label in zip(copy, labels, strict=True)}
    held = digits.shared_out("IID", 100, Streams(2))
    for client in range(100):
        for image, label in zip(held.images[client], held.labels[client], strict=True):
            assert known[image.tobytes()] == label
    ways = [{image.tobytes() for image in copy} for copy in rolled]
    every = {image.tobytes() for one in held.images for image in one}
    assert all(len(way & every) > 100 for way in ways)
    assert every <= set().union(*ways)


def test_without_attackers_the_network_learns():
    assert play(Trial(noise="none")).accuracy > 0.8


def test_a_federation_is_the_same_each_time_and_attackers_do_as_they_are_told():
    assert play(CAPTURED) == play(CAPTURED)
    assert play(Trial("IID", "sign flip", 0.4)).accuracy < play(Trial("IID")).accuracy - 0.2
    clients = TrialClients(Trial("IID", "flooding", 0.25))
    drawn = Counter(clients.malicious[clients.next_clients(np.ones(40, bool))].sum() for _ in range(40))
    assert np.average(list(drawn), weights=list(drawn.values())) > 5


def test_every_pair_of_settings_occurs_in_the_grid():
    grid = stress_grid()
    assert len(grid) == len(set(grid)) == 3 * len(SKEWS) + len(SKEWS) * len(ATTACKS)
    attacked = [trial for trial in grid if trial.attack]
    assert {(trial.buffer, trial.noise) for trial in attacked} == {(b, n) for b in BUFFERS for n in NOISES}
    assert {(trial.skew, trial.attack) for trial in attacked} == {(s, a) for s in SKEWS for a in ATTACKS}
    assert {trial.share for trial in attacked} == set(SHARES)
    assert sum(trial.clients - trial.attackers for trial in grid) >= 3000
    assert len(set(stress_grid(3))) == 3 * len(grid)
    assert stress_grid(1, first=2) == stress_grid(3)[2 * len(grid) :]


# --- what it tells ---------------------------------------------------------------------------------------------------


def test_the_spectral_detector_takes_a_minority_for_the_majority_and_the_one_by_evidence_does_not():
    report = stress(Spectral(), trials=[CAPTURED])
    assert report.honest_banned == report.honest == 24
    assert report.broken[0].startswith("at most 0.1% of honest clients may be banned; it banned 24 of 24, in 1 of 1")
    assert report.worst_attack == "Min-Max"
    assert stress(Evidence(), trials=[CAPTURED]).broken == ()


@pytest.mark.parametrize("trial", [Trial("IID", "sign flip", 0.4), Trial("IID", "IPM", 0.1, noise="none")])
def test_evidence_bans_attackers_where_there_is_signal(trial):
    row = stress(Evidence(), trials=[trial]).rows[0]
    assert (row.honest_banned, row.attackers_banned) == (0, row.attackers)
    assert row.gained > 0.02


def test_it_computes_with_one_thread():
    from threadpoolctl import threadpool_info

    threads = []

    class Watching(Innocent):
        def judge(self, state, buffer, scores):
            threads.extend(pool["num_threads"] for pool in threadpool_info())
            return accept_all(buffer), state

    stress(Watching(), trials=[Trial(turns=1)])
    assert set(threads) == {1}


def test_counts_are_those_of_the_federations():
    report = stress(Innocent(), trials=[Trial("IID", "sign flip", 0.25), Trial("shards", buffer=40)])
    row = report.rows[-1]
    assert (row.name, row.honest, row.attackers, row.honest_banned) == ("all", 30 + 40, 10, 0)
    assert (row.honest_flagged, row.unjudged, row.gained, row.worst) == (0, 0, 0, 0)
    assert [one.name for one in report.rows] == ["no attack", "sign flip", "IID", "shards", "all"]
    # Clients of one federation are no independent cases. Harm in none of 2 federations: 1 - .05^(1/2).
    assert report.most_harmed == pytest.approx(1 - 0.05**0.5)
    assert math.isnan(report.rows[0].attacks_flagged)
    assert report.broken == ()


def test_check_detector_names_the_law_that_is_broken():
    trials = [replace(CAPTURED, attack=None, share=0.0, turns=3)]
    check_detector(Innocent(), trials=trials)
    with pytest.raises(AssertionError, match=r"Harsh: must do no harm; at most 0.1% .* without attackers nobody may"):
        check_detector(Harsh(), trials=trials)
