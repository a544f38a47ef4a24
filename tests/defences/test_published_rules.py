"""FoolsGold, SignGuard, RFLBAT and Sageflow on updates whose outcome can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from asyncfl.defences import FoolsGold, Rflbat, Sageflow, SignGuard
from asyncfl.defences.rflbat import cluster, principal_plane
from asyncfl.defences.sageflow import entropy_and_loss
from asyncfl.defences.signguard import largest_cluster
from asyncfl.testing import buffer, context, random


def unit(*degrees: float) -> np.ndarray:
    """Return vectors of length 1 in the plane, (n, 2)."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


# --- FoolsGold -------------------------------------------------------------------------------------------------------


def test_credits_of_two_equal_clients_and_a_third_by_hand() -> None:
    """Cosines: 1 between the first two, .6 with the third, which is pardoned to .36. Its 1 - .36 = .64 is the largest
    and becomes 1; the first two have 1 - 1 = 0."""
    gram = np.array([[1, 1, 0.6], [1, 1, 0.6], [0.6, 0.6, 1]])
    assert FoolsGold().credits(gram) == pytest.approx([0, 0, 1])


def test_an_honest_client_is_pardoned_for_resembling_sybils() -> None:
    """v = (.9, .9, .5, .2). Client 2 resembles a Sybil by .5, which counts .5 x .5 / .9 = .2778: alpha .7222; client 3
    has .2 x .2 / .9 = .0444: alpha .9556, the largest. Relative to it: .1046, .1046, .7558, 1."""
    gram = np.array([[1, 0.9, 0.5, 0.2], [0.9, 1, 0.5, 0.2], [0.5, 0.5, 1, 0], [0.2, 0.2, 0, 1]])
    wanted = [0.0, 0.0, 1.0, 1.0]  # ln(.1046 / .8954) + .5 < 0, ln(.7558 / .2442) + .5 = 1.63 > 1
    assert FoolsGold().credits(gram) == pytest.approx(wanted)
    milder = FoolsGold(confidence=0.5).credits(gram)
    assert milder == pytest.approx([0, 0, 0.5 * (np.log(0.7558 / 0.2442) + 0.5), 1], abs=1e-3)


def test_scale_and_single_clients_do_not_matter() -> None:
    assert FoolsGold().credits(np.array([[4.0]])) == pytest.approx([1])
    gram = np.array([[1, 0.3], [0.3, 1]])
    scale = np.array([1.0, 1e6])
    assert FoolsGold().credits(gram * np.outer(scale, scale)) == pytest.approx(FoolsGold().credits(gram))


def test_sybils_in_different_buffers_lose_their_credit_by_their_history() -> None:
    rule = FoolsGold()
    state = rule.start(context(4, 2), random())
    rows = unit(0, 70, 0, 110)
    ones = np.full(2, 0.5)
    first, state = rule.step(state, buffer(rows[:2], clients=[0, 1]), ones)
    assert (first.weights > 0).all()
    second, state = rule.step(state, buffer(rows[2:], clients=[2, 3]), ones)
    assert second.weights.tolist() == [0, 0.5]  # client 2 sends what client 0 sent before
    np.testing.assert_allclose(second.update, 0.5 * rows[3], atol=1e-6)
    forgotten, _ = rule.step(rule.forget_client(state, 0), buffer(rows[2:], clients=[2, 3]), ones)
    assert forgotten.weights[0] > 0


def test_clients_that_are_all_alike_are_not_used_and_said_so() -> None:
    rule = FoolsGold()
    held = buffer(np.ones((3, 2)), clients=[0, 1, 2])
    made, _ = rule.step(rule.start(context(3, 2), random()), held, np.full(3, 1 / 3))
    assert not made.update.any()
    assert "every client resembles another" in made.notes[0]


# --- SignGuard -------------------------------------------------------------------------------------------------------


def test_flipped_signs_and_odd_lengths_are_left_out_and_long_updates_clipped() -> None:
    """Four with seven positive entries of eight, one flipped, one 100 times as long."""
    honest = np.ones((5, 8)) - 2 * np.eye(5, 8)
    given = np.concatenate([honest, -honest[:1], 100 * honest[:1]])
    given[1] *= 2
    weights = np.full(7, 1 / 7)
    found = SignGuard().weigh(given, weights)
    # The lengths are sqrt 8 but of row 1 and the last; the five honest ones share the sum of all weights.
    assert found == pytest.approx([0.2, 0.1, 0.2, 0.2, 0.2, 0, 0])
    np.testing.assert_allclose(SignGuard().aggregate(given, weights), found @ given)


def test_with_cosines_attackers_of_usual_signs_stand_out() -> None:
    """All have four positive and four negative entries; those of the attackers are at other places."""
    base = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])
    given = np.stack([base, base, base, base, -base, -base])
    weights = np.full(6, 1 / 6)
    assert np.count_nonzero(SignGuard().weigh(given, weights)) == 6
    for similarity in ("cosine", "distance"):
        found = SignGuard(similarity=similarity).weigh(given, weights)
        assert found == pytest.approx([0.25, 0.25, 0.25, 0.25, 0, 0])


def test_counted_signs_are_those_of_a_share_of_the_parameters() -> None:
    given = np.ones((5, 1000))
    given[4, :500] = -1  # half of its signs differ; a tenth of them shows it
    rule = SignGuard()
    made, following = rule.step(rule.start(context(5, 1000), random()), buffer(given), np.full(5, 0.2))
    assert made.weights == pytest.approx([0.25, 0.25, 0.25, 0.25, 0])
    assert rule._features(given, random()).shape == (5, 3)
    assert following.random() != random().random()


def test_the_larger_of_two_groups_of_points_is_found_in_any_order() -> None:
    points = np.array([[0.0, 1], [0.1, 1], [0.05, 1], [0.9, 0], [0.95, 0]])
    assert largest_cluster(points).tolist() == [True, True, True, False, False]
    assert largest_cluster(points[::-1]).tolist() == [False, False, True, True, True]
    assert largest_cluster(np.ones((4, 3))).all()


def test_lengths_of_signguard_that_exclude_the_median_are_refused() -> None:
    with pytest.raises(ValueError, match="shortest must be <= 1 and longest >= 1, got 2 and 3"):
        SignGuard(shortest=2.0)


# --- RFLBAT ----------------------------------------------------------------------------------------------------------


def test_the_plane_keeps_the_distances_of_updates_that_lie_in_one() -> None:
    points = np.random.default_rng(0).standard_normal((7, 2))
    turned = points @ np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0][:2]
    plane = principal_plane(turned)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    scale = np.linalg.norm(plane[0] - plane[1]) / distances[0, 1]
    np.testing.assert_allclose(np.linalg.norm(plane[:, None] - plane, axis=2), scale * distances, atol=1e-6)


def test_attackers_that_resemble_each_other_form_the_cluster_that_is_left_out() -> None:
    """Honest updates point in all directions but one; attackers all point there."""
    noise = np.random.default_rng(3).standard_normal((14, 6))
    honest = np.concatenate([noise[:9, :3], np.zeros((9, 3))], axis=1)
    attackers = np.array([0, 0, 0, 0, 0, 30.0]) + 0.05 * noise[9:]
    given = np.concatenate([honest, attackers])
    weights = np.full(14, 1 / 14)
    found = Rflbat().weigh(given, weights)
    assert not found[9:].any()
    assert np.count_nonzero(found[:9]) >= 5
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(Rflbat().aggregate(given, weights), found @ given)


def test_an_update_far_from_all_others_is_left_out_before_the_clusters() -> None:
    """Its summed distance is 20 x 1000; those of the others are about 1000 + 20, of which it is 20 times the median."""
    given = np.concatenate([np.random.default_rng(0).standard_normal((20, 2)), [[1000.0, 0]]])
    rule = Rflbat(clusters=1)
    assert rule.select(given, random()).tolist() != list(range(21))
    assert 20 not in rule.select(given, random())
    assert 20 in Rflbat(clusters=1, outlying=100, straying=100).select(given, random())


def test_the_gap_statistic_finds_one_cluster_or_three() -> None:
    drawn = np.random.default_rng(4)
    three = np.concatenate([drawn.standard_normal((12, 2)) * 0.05 + middle for middle in ([0, 0], [1, 0], [0, 1])])
    groups = cluster(three, 9, 5, random())
    assert len(np.unique(groups)) == 3
    assert all(len(np.unique(groups[start : start + 12])) == 1 for start in (0, 12, 24))
    assert not cluster(drawn.random((30, 2)), 9, 5, random()).any()
    assert not cluster(np.ones((5, 2)), 9, 5, random()).any()


# --- Sageflow --------------------------------------------------------------------------------------------------------


def test_groups_losses_and_entropies_by_hand() -> None:
    """Weights .2 each. Of staleness 0 rows 0 and 1 with losses 1 and 3: shares 3/4 and 1/4 of .4. Row 2, as old, is too
    uncertain. Of staleness 2 rows 3 and 4, with half of its loss: 1/3 and 2/3 of .4. The sum is raised to 1."""
    staleness, losses = np.array([0, 0, 0, 2, 2]), np.array([1.0, 3, 1, 2, 1])
    entropies = np.array([0.5, 0.5, 2.0, 1.9, 0.1])
    made = Sageflow(most_entropy=2).aggregate_groups(np.eye(5), np.full(5, 0.2), staleness, entropies, losses)
    assert made.weights == pytest.approx([0.375, 0.125, 0, 1 / 6, 1 / 3])
    assert made.update == pytest.approx(made.weights)
    plain = Sageflow(most_entropy=2, loss_power=0).aggregate_groups(
        np.eye(5), np.full(5, 0.2), staleness, entropies, losses
    )
    assert plain.weights == pytest.approx([0.25, 0.25, 0, 0.25, 0.25])
    steep = Sageflow(most_entropy=2, loss_power=2000).aggregate_groups(
        np.eye(5), np.full(5, 0.2), staleness, entropies, losses
    )
    assert steep.weights == pytest.approx([0.5, 0, 0, 0, 0.5])


def test_a_group_counts_by_the_weights_that_staleness_left_it() -> None:
    made = Sageflow().aggregate_groups(np.eye(2), np.array([0.6, 0.2]), np.array([0, 3]), np.zeros(2), np.ones(2))
    assert made.weights == pytest.approx([0.6, 0.2])


def test_a_run_stands_still_where_every_model_is_uncertain_and_is_told_so() -> None:
    made = Sageflow(most_entropy=2).aggregate_groups(
        np.eye(2), np.full(2, 0.5), np.zeros(2), np.full(2, 2.3), np.ones(2)
    )
    assert not made.update.any()
    assert "entropy of every model was too large" in made.notes[0]


def test_entropy_and_loss_of_predictions_by_hand() -> None:
    predicted = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert entropy_and_loss(predicted, np.array([0, 0])) == pytest.approx((np.log(2) / 2, np.log(2) / 2))
    assert entropy_and_loss(np.array([[np.nan, 1]]), np.array([0])) == (np.inf, np.inf)


def test_a_server_without_samples_or_classes_is_refused() -> None:
    rule, held = Sageflow(), buffer(np.eye(2))
    with pytest.raises(ValueError, match="predictions of classes on the server's own samples are needed"):
        rule.step(rule.start(context(2, 2), random()), held, np.full(2, 0.5))
    with pytest.raises(ValueError, match="call `aggregate_groups"):
        rule.aggregate(held.deltas, np.full(2, 0.5))
    predicts = replace(
        context(2, 2),
        root_predictions=lambda model: np.array([[0.9, 0.1]] if model[0] else [[0.5, 0.5]]),
        root_labels=np.array([0]),
    )
    made, _ = Sageflow(most_entropy=0.5).step(predicts, buffer(np.eye(2), drift=0.0), np.full(2, 0.5))
    assert made.weights.tolist() == [1, 0]
