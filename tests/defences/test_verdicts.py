"""Verdicts on updates, strikes and bans that follow, and their precision and recall: by hand, and laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.defences import Verdict
from asyncfl.defences.quality import Judgement, overall_quality
from asyncfl.defences.strikes import Strikes

sequences = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)


def banned_at(strikes, sequence):
    """Number of the judged update (from 1) of one client that led to its ban, or None."""
    state = strikes.start(1)
    for number, strike in enumerate(sequence, start=1):
        banned, state = strikes.step(state, [0], [strike])
        if banned:
            return number
    return None


@pytest.mark.parametrize(
    ("sequence", "number"),
    [((1, 0, 0, 1), None), ((1, 0, 1), 3), ((1, 1), 2), ((0, 0, 1, 0, 1), 5), ((1, 0, 0, 1, 1), 5), ((0,) * 9, None)],
)
def test_ban_at_two_strikes_within_the_last_three_updates(sequence, number):
    assert banned_at(Strikes(threshold=2, window=3), sequence) == number


@pytest.mark.parametrize(("threshold", "number"), [(1, 1), (2, 4), (3, None)])
def test_strikes_never_expire_without_a_window(threshold, number):
    assert banned_at(Strikes(threshold=threshold), (1, 0, 0, 1)) == number


def test_several_updates_of_a_client_count_in_order():
    state = Strikes(threshold=2, window=3).start(3)
    banned, state = Strikes(threshold=2, window=3).step(state, [2, 0, 2, 1], [True, True, True, False])
    assert banned == (2,)
    assert state.banned.tolist() == [False, False, True]


@given(sequences)
def test_state_is_immutable_and_steps_can_be_joined(sequence):
    strikes = Strikes(threshold=2, window=3)
    start = strikes.start(4)
    clients, struck = [client for client, _ in sequence], [strike for _, strike in sequence]
    at_once, end = strikes.step(start, clients, struck)
    assert not start.total.any()
    assert not start.banned.any()
    state, one_by_one = start, ()
    for client, strike in sequence:
        banned, state = strikes.step(state, [client], [strike])
        one_by_one += banned
    assert at_once == one_by_one
    assert (end.banned == state.banned).all()
    assert (end.history == state.history).all()


@given(sequences)
def test_longer_window_bans_at_least_the_same_clients(sequence):
    clients, struck = [client for client, _ in sequence], [strike for _, strike in sequence]
    short, long = Strikes(threshold=2, window=3), Strikes(threshold=2)
    by_short, _ = short.step(short.start(4), clients, struck)
    by_long, _ = long.step(long.start(4), clients, struck)
    assert set(by_short) <= set(by_long)


def test_window_shorter_than_the_threshold_is_refused():
    with pytest.raises(ValidationError, match="window must be >= threshold"):
        Strikes(threshold=3, window=2)


def test_default_factors_are_data_shares_times_staleness_weights(buffer_of, context_of):
    # Shares 1/4 and 3/4 of the samples; (1 + 0)^-1/2 = 1 and (1 + 3)^-1/2 = 1/2.
    held = buffer_of([[1.0], [1.0], [1.0]], samples=[1, 3, 99], version=3, base_versions=[3, 0, 0])
    assert held.staleness.tolist() == [0, 3, 3]
    assert context_of().factors_of(held, np.array([0, 1])) == pytest.approx([0.25, 0.375])
    assert len(context_of().factors_of(held, np.array([], dtype=int))) == 0


def test_unjudged_updates_are_accused_only_if_struck():
    flagged, strikes = np.array([True, True, False, False]), np.array([False, False, True, False])
    verdict = Verdict(flagged, strikes, unjudged=np.array([True, False, False, False]))
    assert verdict.accused.tolist() == [False, True, True, False]


def test_base_versions_and_models_of_kept_rows(buffer_of):
    held = buffer_of([[1.0], [2.0], [3.0]], bases=[[10.0], [20.0], [30.0]], base_versions=[0, 1, 2], version=2)
    kept = held.only(np.array([2, 0]))
    assert kept.deltas[:, 0].tolist() == [3.0, 1.0]
    assert kept.base(0).tolist() == [30.0]
    assert kept.staleness.tolist() == [0, 2]


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


def test_malicious_updates_that_a_detector_abstained_on_are_missed():
    # Of 93 malicious updates 73 are flagged; the detector abstains on the other 20, and on 7 of 107 honest ones.
    clients, accused = [0] * 93 + [2] * 107, [True] * 73 + [False] * 127
    unjudged = [False] * 73 + [True] * 27 + [False] * 100
    total = quality_of((clients, accused, unjudged))
    assert (total["judged"], total["unjudged"], total["malicious_unjudged"]) == (173, 27, 20)
    assert (total["true_positives"], total["false_negatives"], total["false_positives"]) == (73, 20, 0)
    assert total["recall"] == pytest.approx(73 / 93)
    assert (total["recall_judged"], total["precision"]) == (1, 1)
    assert total["unjudged_share"] == pytest.approx(27 / 200)


def test_a_detector_that_only_abstains_finds_no_attack():
    nothing_known = quality_of(([0, 2, 3], [False] * 3, [True] * 3))
    assert (nothing_known["judged"], nothing_known["unjudged"]) == (0, 3)
    assert (nothing_known["recall"], nothing_known["unjudged_share"]) == (0, 1)
    assert np.isnan([nothing_known["precision"], nothing_known["recall_judged"]]).all()


def test_a_struck_update_was_judged():
    struck = quality_of(([0, 1, 2], [True, False, False], [True, True, False]))
    assert (struck["judged"], struck["unjudged"], struck["true_positives"], struck["false_negatives"]) == (2, 1, 1, 1)
    assert (struck["precision"], struck["recall"], struck["recall_judged"]) == (1, 0.5, 1)


def test_precision_and_recall_are_nan_without_accused_or_malicious_updates():
    assert np.isnan(quality_of(([2, 3], [True, False]))["recall"])
    assert np.isnan(quality_of()["precision"])
