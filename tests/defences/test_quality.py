"""Precision, recall and bans, counted by hand."""

import numpy as np
import pytest

from asyncfl.defences.quality import Judgement, overall_quality

ATTACKERS = np.array([True, True, False, False, False])


def quality_of(*judgements):
    """Quality of verdicts on the updates of `clients`: (clients, accused, unjudged, banned)."""
    held = [
        Judgement(accused, ATTACKERS[np.array(clients, dtype=int)].tolist(), *more, *((),) * (2 - len(more)))
        for clients, accused, *more in judgements
    ]
    return overall_quality(held, ATTACKERS)


def test_precision_and_recall_by_hand():
    total = quality_of(
        ([0, 2, 3], [True, True, False]),
        ([2, 3, 4], [False] * 3, (), (2,)),
        ([0, 1, 1, 4], [True, False, True, False], (), (0, 1)),
        ([], []),
    )
    assert [total[name] for name in ("judged", "true_positives", "false_positives", "false_negatives")] == [10, 3, 1, 1]
    assert total["precision"] == pytest.approx(3 / 4)
    assert total["recall"] == pytest.approx(3 / 4)
    assert (total["honest_bans"], total["malicious_bans"]) == (1, 2)


def test_unjudged_updates_are_not_counted():
    nothing_known = quality_of(([0, 2, 3], [False] * 3, [True] * 3))
    assert (nothing_known["judged"], nothing_known["unjudged"]) == (0, 3)
    assert np.isnan([nothing_known["precision"], nothing_known["recall"]]).all()
    struck = quality_of(([0, 1, 2], [True, False, False], [True, True, False]))
    assert (struck["judged"], struck["unjudged"], struck["true_positives"], struck["false_negatives"]) == (2, 1, 1, 0)
    assert (struck["precision"], struck["recall"]) == (1, 1)


def test_precision_and_recall_are_nan_without_accused_or_malicious_updates():
    assert np.isnan(quality_of(([2, 3], [True, False]))["recall"])
    assert np.isnan(quality_of()["precision"])
