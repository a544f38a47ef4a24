"""Precision, recall and bans, counted by hand."""

import numpy as np
import pytest

from asyncfl.defences.quality import Judgement, detection_quality, overall_quality

ATTACKERS = np.array([True, True, False, False, False])
JUDGEMENTS = [
    Judgement(0, [0, 2, 3], [True, True, False], ()),
    Judgement(1, [2, 3, 4], [False, False, False], (2,)),
    Judgement(2, [0, 1, 1, 4], [True, False, True, False], (0, 1)),
    Judgement(3, [], [], ()),
]


def test_precision_and_recall_by_hand():
    columns = detection_quality(JUDGEMENTS, ATTACKERS)
    assert columns["version"].tolist() == [0, 1, 2, 3]
    assert columns["judged"].tolist() == [3, 3, 4, 0]
    assert columns["true_positives"].tolist() == [1, 0, 2, 0]
    assert columns["false_positives"].tolist() == [1, 0, 0, 0]
    assert columns["false_negatives"].tolist() == [0, 0, 1, 0]
    assert columns["honest_banned"].tolist() == [0, 1, 1, 1]
    assert columns["malicious_banned"].tolist() == [0, 0, 2, 2]
    np.testing.assert_allclose(columns["precision"], [0.5, np.nan, 1, np.nan])
    np.testing.assert_allclose(columns["recall"], [1, np.nan, 2 / 3, np.nan])


def test_unjudged_updates_are_not_counted():
    nothing_known = Judgement(4, [0, 2, 3], [False] * 3, (), unjudged=[True] * 3)
    struck = Judgement(5, [0, 1, 2], [True, False, False], (), unjudged=[True, True, False])
    columns = detection_quality([nothing_known, struck], ATTACKERS)
    assert columns["judged"].tolist() == [0, 2]
    assert columns["unjudged"].tolist() == [3, 1]
    assert columns["true_positives"].tolist() == [0, 1]
    assert columns["false_positives"].tolist() == columns["false_negatives"].tolist() == [0, 0]
    np.testing.assert_array_equal(columns["precision"], [np.nan, 1])
    np.testing.assert_array_equal(columns["recall"], [np.nan, 1])


def test_malicious_updates_may_be_given_per_task():
    columns = detection_quality([Judgement(0, [0, 2], [True, True], (0,), malicious=[False, True])], ATTACKERS)
    assert (columns["true_positives"].tolist(), columns["false_positives"].tolist()) == ([1], [1])
    assert columns["malicious_bans"].tolist() == [1]


def test_overall_quality_is_that_of_the_summed_counts():
    total = overall_quality(JUDGEMENTS, ATTACKERS)
    assert total["precision"] == pytest.approx(3 / 4)
    assert total["recall"] == pytest.approx(3 / 4)
    assert (total["honest_bans"], total["malicious_bans"]) == (1, 2)


def test_recall_is_nan_without_attackers():
    assert np.isnan(overall_quality(JUDGEMENTS, np.zeros(5, dtype=bool))["recall"])
    assert len(detection_quality([], ATTACKERS)["precision"]) == 0


def test_number_of_verdicts_must_match_updates():
    with pytest.raises(ValueError, match="one verdict per update"):
        detection_quality([Judgement(0, [0, 1], [True])], ATTACKERS)
