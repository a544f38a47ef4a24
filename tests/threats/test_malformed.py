"""Uploads that are not finite, or not of the right length."""

import numpy as np
import pytest

from asyncfl.threats import NonFinite


@pytest.mark.parametrize(("share", "count"), [(0.5, 2), (0.001, 1), (0.75, 3)])
def test_share_of_parameters_becomes_non_finite(make_view, share, count):
    view = make_view()
    crafted = NonFinite(share=share).craft(view)
    assert np.isnan(crafted).sum(axis=1).tolist() == [count] * 4
    np.testing.assert_array_equal(crafted[~np.isnan(crafted)], view.honest[~np.isnan(crafted)])
