"""Precision, recall and bans, counted by hand."""

import numpy as np
import pytest

from asyncfl.defences.quality import Judgement, overall_quality

ATTACKERS = np.array([True, True, False, False, False])
JUDGEMENTS = [
    Judgement(0, [0, 2, 3], [True, True, False], ()),
    Judgement(1, [2, 3, 4], [False, False, False], (2,)),
    Judgement(2, [0, 1, 1, 4], [True, False, True, False], (0, 1)),
    Judgement(3, [], [], ()),
]


def quality_of(*judgements):
    return overall_quality(judgements, ATTACKERS)


def test_precision_and_recall_by_hand():
    total = quality_of(*JUDGEMENTS)
    assert [total[name] for name in ("judged", "true_positives", "false_positives", "false_negatives")] == [10, 3, 1, 1]
    assert total["precision"] == pytest.approx(3 / 4)
    assert total["recall"] == pytest.approx(3 / 4)
    assert (total["honest_bans"], total["malicious_bans"]) == (1, 2)


def test_unjudged_updates_are_not_counted():
    nothing_known = quality_of(Judgement(4, [0, 2, 3], [False] * 3, (), unjudged=[True] * 3))
    assert (nothing_known["judged"], nothing_known["unjudged"]) == (0, 3)
    assert np.isnan([nothing_known["precision"], nothing_known["recall"]]).all()
    struck = quality_of(Judgement(5, [0, 1, 2], [True, False, False], (), unjudged=[True, True, False]))
    assert (struck["judged"], struck["unjudged"], struck["true_positives"], struck["false_negatives"]) == (2, 1, 1, 0)
    assert (struck["precision"], struck["recall"]) == (1, 1)


def test_malicious_updates_may_be_given_per_task():
    found = quality_of(Judgement(0, [0, 2], [True, True], (0,), malicious=[False, True]))
    assert (found["true_positives"], found["false_positives"], found["malicious_bans"]) == (1, 1, 1)


def test_recall_is_nan_without_attackers():
    assert np.isnan(overall_quality(JUDGEMENTS, np.zeros(5, dtype=bool))["recall"])
    assert np.isnan(quality_of()["precision"])


def test_number_of_verdicts_must_match_updates():
    with pytest.raises(ValueError, match="one verdict per update"):
        quality_of(Judgement(0, [0, 1], [True]))
