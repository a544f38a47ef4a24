"""Values of the rules by hand."""

import numpy as np
import pytest

from asyncfl.defences import (
    AdaptiveClipping,
    Basgd,
    Bucketing,
    CentredClipping,
    Clipping,
    FLTrust,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NormClipping,
    TrimmedMean,
)
from asyncfl.defences.bulyan import nearest_to_median
from asyncfl.defences.robust_rule import weighted_sum
from asyncfl.testing import check_rule

LINE = np.array([[0.0], [1.0], [1.5], [2.0], [10.0]], dtype=np.float32)


def test_krum_selects_the_least_score_by_hand():
    # f = 1: two nearest. Squared: 0 -> 1 + 2.25, 1 -> .25 + 1, 1.5 -> .25 + .25, 2 -> .25 + 1.
    assert Krum(byzantine=1).weigh(LINE, np.full(5, 0.1)).tolist() == pytest.approx([0, 0, 0.5, 0, 0])
    assert Krum(byzantine=1).aggregate(LINE, np.full(5, 0.1)).tolist() == [0.75]


def test_multi_krum_averages_selected_updates_by_weight():
    weights = np.array([0.1, 0.1, 0.2, 0.1, 0.5])
    assert MultiKrum(byzantine=1, chosen=2).weigh(LINE, weights) == pytest.approx([0, 1 / 3, 2 / 3, 0, 0])
    assert MultiKrum(byzantine=1, chosen=9).notes(5) == [
        "chosen 9 is more than the 5 updates of a buffer: all are averaged"
    ]


def test_median_and_trimmed_mean_by_hand_keep_the_mass():
    weights = np.array([0.4, 0.02, 0.02, 0.02, 0.04])
    assert Median().aggregate(LINE, weights) == pytest.approx([0.75])
    assert TrimmedMean(byzantine=1).aggregate(LINE, weights) == pytest.approx([0.75])
    assert Median().aggregate(LINE[:4], np.full(4, 0.25)) == pytest.approx([1.25])
    assert Median().weigh(LINE, weights).tolist() == weights.tolist()


def test_geometric_median_is_the_point_with_more_than_half_of_the_weight():
    points = np.array([[0.0, 0], [1, 0], [5, 5]])
    assert GeometricMedian().aggregate(points, np.array([0.2, 0.2, 0.6])) == pytest.approx([5, 5], abs=1e-3)
    assert GeometricMedian().aggregate(points[[0, 0, 2]], np.full(3, 1 / 3)) == pytest.approx([0, 0], abs=1e-3)


def test_bulyan_averages_values_nearest_to_the_median():
    values = np.array([[0.0, 5], [1, 5], [2, 6], [9, 0], [9.5, -9]])
    # Medians 2 and 5; the two nearest are 1 and 2, 5 and 5; the three nearest 0, 1, 2 and 5, 5, 6.
    assert nearest_to_median(values, 2).tolist() == [1.5, 5]
    assert nearest_to_median(values, 3) == pytest.approx([1, 16 / 3])
    assert nearest_to_median(values, 5) == pytest.approx(values.mean(axis=0))


def test_norm_clipping_by_hand():
    updates = np.array([[3.0, 4.0], [0.3, 0.4], [0, 0]])
    assert NormClipping(bound=1).aggregate(updates, np.full(3, 1 / 3)) == pytest.approx([0.3, 0.4])
    assert NormClipping().aggregate(updates, np.full(3, 1 / 3)) == pytest.approx([0.2, 0.8 / 3])


def test_centred_clipping_continues_from_its_centre(buffer_of, context_of, random):
    rule = CentredClipping(radius=1.0)
    state = rule.start(context_of(2, 2), random)
    buffer = buffer_of([[3.0, 0], [3, 0]])
    weights = np.full(2, 0.25)
    centres = []
    for _ in range(4):
        done, state = rule.step(state, buffer, weights)
        centres.append(float(done.update[0]))
    assert centres == [0.5, 1.0, 1.5, 1.5]
    assert done.weights == pytest.approx(weights)
    still, after = rule.step(state, buffer, np.zeros(2))
    assert still.update.tolist() == [0, 0]
    assert after.centre.tolist() == [3, 0]


def test_weighted_sum_handles_tiny_coefficients_and_skips_zeros():
    updates = np.array([[1e38, -1e38], [np.inf, np.nan], [2.0, 3.0]], np.float32)
    found = weighted_sum(np.array([1e-40, 0.0, 0.5]), updates)
    assert found.dtype == np.float32
    assert found == pytest.approx([1.01, 1.49], rel=1e-6)
    assert weighted_sum(np.array([0.0, 0.0, 0.5]), updates).tolist() == [1.0, 1.5]
    assert weighted_sum(np.array([1e-40, 1e-41]), updates[::2]) == pytest.approx([0.01, -0.01], rel=1e-6)


def test_bucketing_by_hand_in_order_and_at_random(buffer_of, context_of, random):
    weights = np.array([0.1, 0.3, 0.2, 0.2, 0.2])
    mixing = Bucketing(size=2).mix(LINE, weights, None)
    assert mixing.round(3).tolist() == [[0.25, 0.75, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1]]
    assert Bucketing(size=2).share_out(mixing, weights) == pytest.approx([0.4, 0.4, 0.2])
    shuffled = Bucketing(size=2).mix(LINE, weights, random)
    assert shuffled.sum(axis=1) == pytest.approx(np.ones(3))
    assert (shuffled != mixing).any()
    rule = Median(pre=(Bucketing(),))
    state = rule.start(context_of(5, 1), random)
    seen = set()
    for _ in range(20):
        done, state = rule.step(state, buffer_of(LINE), weights)
        seen.add(float(done.update[0]))
    assert len(seen) > 2


def test_basgd_limits_a_flooder_to_one_group(buffer_of):
    # Client 4 of group 1 sends six of eight updates.
    buffer = buffer_of([[1.0], [1.2]] + [[50.0]] * 6, clients=[0, 2] + [4] * 6)
    rule = Basgd(buffers=3)
    weights = np.full(8, 1 / 8)
    assert rule.step(None, buffer, weights)[0].update == pytest.approx([1.2])
    done, _ = Basgd(buffers=3, rule=Krum()).step(None, buffer, weights)
    assert done.weights.sum() == pytest.approx(1)
    done, _ = Basgd(buffers=1, rule=Mean()).step(None, buffer, weights)
    assert done.update == pytest.approx([(2.2 + 300) / 8])
    assert rule.step(None, buffer, np.zeros(8))[0].update.tolist() == [0]


@pytest.mark.parametrize(
    ("rule", "lowered"),
    [(TrimmedMean(byzantine=4), {8: 3, 2: 0, 1: 0}), (Krum(byzantine=6), {8: 5, 2: 0, 1: 0})],
    ids=["trimmed_mean", "krum"],
)
def test_basgd_lowers_byzantine_for_empty_groups(buffer_of, rule, lowered):
    """Ten updates from fewer groups."""
    basgd = Basgd(buffers=10, rule=rule)
    assert list(basgd.faults(10)) == []
    for groups, byzantine in lowered.items():
        buffer = buffer_of([[float(n)] for n in range(10)], clients=[n % groups for n in range(10)])
        done, _ = basgd.step(None, buffer, np.full(10, 0.1))
        name = type(rule).__name__
        said = f"{name}: byzantine {rule.byzantine} lowered to {byzantine} for a buffer of {groups}"
        assert done.notes == (f"basgd, means of groups: {said}",)
        assert np.isfinite(done.update).all()
        assert done.weights.sum() == pytest.approx(1)
    alone = basgd.step(None, buffer_of([[float(n)] for n in range(10)], clients=range(10)), np.full(10, 0.1))[0]
    assert alone.notes == ()


def test_fltrust_weighs_updates_by_cosine_with_the_server():
    own = np.array([0.0, 2.0], dtype=np.float32)
    updates = np.array([[0.0, 9.0], [3.0, 3.0], [0.0, -1.0]], dtype=np.float32)
    done = FLTrust().aggregate_trusted(own, updates, np.full(3, 0.2))
    half = np.sqrt(0.5)
    assert done.weights == pytest.approx([0.6 / (1 + half), 0.6 * half / (1 + half), 0])
    toward = np.array([[0, 2], [2 * half, 2 * half]])
    assert done.update == pytest.approx(done.weights[:2] @ toward, rel=1e-6)


def test_fltrust_trains_on_the_root_set(buffer_of, context_of, random):
    rule = FLTrust()
    with pytest.raises(ValueError, match="server's own update"):
        rule.aggregate(LINE, np.ones(5))
    # Loss |w - (1, 0)|^2 / 2: two steps of .1 from 0 lead to .19.
    state = rule.start(context_of(steps=2, root_gradient=lambda w: w - np.array([1, 0])), random)
    done, _ = rule.step(state, buffer_of([[5.0, 0]]), np.ones(1))
    assert done.update == pytest.approx([0.19, 0])


# --- clipping before a rule ---


def test_clipping_before_a_rule_shortens_updates_to_the_bound():
    given = np.array([[3.0, 4], [0.3, 0.4], [0, 0]])
    rule = TrimmedMean(byzantine=0, pre=(Clipping(bound=1.0),))
    np.testing.assert_allclose(rule.aggregate(given, np.full(3, 1 / 3)), (given[0] / 5 + given[1]) / 3)
    median = TrimmedMean(byzantine=0, pre=(Clipping(),))
    np.testing.assert_allclose(median.aggregate(given, np.full(3, 1 / 3)), (given[0] / 10 + given[1]) / 3)


@pytest.mark.parametrize(("attackers", "longest"), [(0, 5.0), (1, 4.0), (2, 3.0)])
def test_adaptive_clipping_shortens_the_longest_to_the_next_by_hand(attackers, longest):
    """k = floor(2 f (5 - f) / 5) of five updates of lengths 1 to 5: 0, 1 (of 1.6) and 2 (of 2.4)."""
    given = np.diag([1.0, 2, 3, 4, 5])
    clipped = AdaptiveClipping(byzantine=attackers).mix(given, np.full(5, 0.2), None) @ given
    np.testing.assert_allclose(np.linalg.norm(clipped, axis=1), np.minimum([1, 2, 3, 4, 5], longest))


def test_adaptive_clipping_to_a_length_of_zero_leaves_zero():
    given = np.array([[1.0, 0], [0, 0], [0, 0]])
    assert not (AdaptiveClipping(byzantine=1).mix(given, np.full(3, 1 / 3), None) @ given).any()


@pytest.mark.parametrize("pre", [Clipping(), Clipping(bound=0.5), AdaptiveClipping()])
def test_rules_after_clipping_keep_the_laws(pre):
    check_rule(TrimmedMean(pre=(pre,)), fixed_point=pre.kind != "clipping" or pre.bound == "median")
