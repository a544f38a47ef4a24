"""The base class of detectors: factors of updates, accused updates, and staleness in a buffer."""

import numpy as np
import pytest

from asyncfl.defences import Verdict


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
