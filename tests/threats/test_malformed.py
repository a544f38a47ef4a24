"""Uploads that are not finite, or not of the right length."""

import numpy as np
import pytest

from asyncfl.threats import NonFinite, WrongLength


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_all_parameters_become_non_finite(make_view, value):
    crafted = NonFinite(value=value).craft(make_view())
    np.testing.assert_array_equal(crafted, np.full((4, 4), float(value)))


@pytest.mark.parametrize(("share", "count"), [(0.5, 2), (0.001, 1), (0.75, 3)])
def test_share_of_parameters_becomes_non_finite(make_view, share, count):
    view = make_view()
    crafted = NonFinite(share=share).craft(view)
    assert np.isnan(crafted).sum(axis=1).tolist() == [count] * 4
    np.testing.assert_array_equal(crafted[~np.isnan(crafted)], view.honest[~np.isnan(crafted)])


def test_length_error_is_off_by(make_view):
    view = make_view()
    assert WrongLength(off_by=-3).length_error == -3
    assert WrongLength().craft(view) is None
