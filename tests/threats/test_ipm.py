"""Inner product manipulation."""

import numpy as np

from asyncfl.threats import Ipm


def test_ipm_agrees_with_byzfl(make_view):
    crafted = Ipm(tau=1.5).craft(make_view(others=[[9, 9, 9, 9]]))
    np.testing.assert_allclose(crafted, [[-2.4375, -0.375, 2.25, -1.40625]] * 4, rtol=1e-7)


def test_mean_reverses_above_the_published_bound(make_view):
    honest = np.array([[1.0, 2.0]] * 6)
    bound = 6 / 4
    for tau, turned in [(bound - 0.01, False), (bound + 0.01, True)]:
        crafted = Ipm(tau=tau).craft(make_view(honest=honest[:4]))
        assert ((np.concatenate([honest, crafted]).mean(axis=0) < 0) == turned).all()


def test_attacker_with_a_diverged_update_uploads_it(make_view):
    view = make_view(honest=[[np.nan, 1], [2, 2]])
    crafted = Ipm(tau=1, knowledge="own").craft(view)
    np.testing.assert_array_equal(crafted, [[np.nan, 1], [-2, -2]])
