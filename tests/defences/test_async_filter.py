import numpy as np
import pytest

from asyncfl.defences import AsyncFilter

ONE_DIMENSION = np.array([[1.0], [1.0], [2.0], [8.0]])


def test_highest_of_three_clusters_is_left_out(buffer_of, judge):
    verdict, state = judge(AsyncFilter(), buffer_of(ONE_DIMENSION))
    # Mean 3, distances 2, 2, 1, 5: clusters {1}, {2, 2}, {5}.
    assert verdict.flagged.tolist() == [False, False, False, True]
    assert not verdict.strikes.any()
    assert not verdict.unjudged.any()
    assert verdict.details[3] == f"distance {5 / np.sqrt(34 / 4):.3g} of its group's"
    assert state.means[0] == pytest.approx([3.0])
    assert state.counts == {0: 4}


def test_mean_of_a_version_includes_earlier_buffers(buffer_of, judge):
    late = buffer_of([[0.0], [0.0], [6.0]], version=1, base_versions=[0, 0, 0])
    verdict, after = judge(AsyncFilter(), buffer_of(ONE_DIMENSION), late)
    # (4 * 3 + 6) / 7 = 18/7: distances 18/7, 18/7, 24/7, of which there are only two different ones.
    assert after.means[0] == pytest.approx([18 / 7])
    assert not verdict.flagged.any()


def test_small_groups_are_accepted_unjudged(buffer_of, judge):
    held = buffer_of([[9.0], [-9.0], *ONE_DIMENSION], version=2, base_versions=[1, 1, 2, 2, 2, 2])
    verdict, state = judge(AsyncFilter(), held)
    assert verdict.unjudged.tolist() == [True, True, False, False, False, False]
    assert verdict.flagged.tolist() == [False] * 5 + [True]
    assert state.counts == {1: 2, 2: 4}


def test_scores_are_clustered_per_buffer_or_per_group(buffer_of, judge):
    # The second group is wide but even: by itself its farthest are left out, among all its scores are ordinary.
    wide = [[-40.0], [-36.0], [26.0], [50.0]]
    held = buffer_of([*ONE_DIMENSION, *wide], version=1, base_versions=[0] * 4 + [1] * 4)
    flags = {how: judge(AsyncFilter(clusters=how), held)[0].flagged for how in ("buffer", "group")}
    # Scores .69, .69, .34, 1.71, and 1.03, .92, .67, 1.28: the last of them is the farthest of its group alone.
    assert flags["buffer"].tolist() == [False, False, False, True, False, False, False, False]
    assert flags["group"].tolist() == [False, False, False, True, False, False, False, True]
