"""Uploads that are not finite, or not of the right length."""

import numpy as np
import pytest

from asyncfl.threats import NonFinite, WrongLength


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_all_parameters_are_spoilt(make_view, value):
    crafted = NonFinite(value=value).craft(make_view())
    np.testing.assert_array_equal(crafted, np.full((4, 4), float(value)))


@pytest.mark.parametrize(("share", "count"), [(0.5, 2), (0.001, 1), (0.75, 3)])
def test_a_share_is_spoilt_and_the_rest_is_honest(make_view, share, count):
    view = make_view()
    crafted = NonFinite(share=share).craft(view)
    assert np.isnan(crafted).sum(axis=1).tolist() == [count] * 4
    np.testing.assert_array_equal(crafted[~np.isnan(crafted)], view.honest[~np.isnan(crafted)])


def test_length_is_wrong_by_what_is_asked_for(make_view):
    view = make_view()
    assert WrongLength(off_by=-3).length_error == -3
    assert WrongLength().craft(view) is None
