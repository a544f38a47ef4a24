"""AFLGuard and Zeno++: filters that compare with the server's own samples."""

import numpy as np
import pytest

from asyncfl.defences import AflGuard, ZenoPlusPlus


def slope(model):
    """Gradient of a loss that falls along the first axis."""
    return np.array([-1.0, 0.0])


def test_root_update_takes_clipped_steps(context_of):
    context = context_of(root_gradient=lambda w: np.array([0.0, 8.0]), lr=0.5, steps=3, gradient_clip=2.0)
    assert context.trusted_gradient(np.zeros(2, dtype=np.float32)).tolist() == [0, 2]
    assert context.trusted_update(np.ones(2, dtype=np.float32)).tolist() == [0, -3]
    with pytest.raises(ValueError, match=r"none; set defence.root_samples"):
        context_of().trusted_gradient(np.zeros(2, dtype=np.float32))


def test_aflguard_limits_the_difference_from_the_servers_update(buffer_of, judge):
    # The server's update is (.1, 0): 1.5 times .1 is allowed.
    held = buffer_of([[0.1, 0.14], [0.1, 0.16], [-0.04, 0], [-0.06, 0]])
    verdict, _ = judge(AflGuard(), held, root_gradient=slope)
    assert verdict.flagged.tolist() == [False, True, False, True]
    assert verdict.details[3] == "differs by 0.16, allowed 0.15"
    assert not verdict.strikes.any()


@pytest.mark.parametrize(("epsilon", "flagged"), [(0.0, [False, True, True, True]), (0.8, [False, False, True, False])])
def test_zeno_requires_descent_in_proportion_to_length(epsilon, flagged, buffer_of, judge):
    # g = -10 delta; score .1 <v, g> - rho |g|^2 with v = (-1, 0).
    # .1 * 1 - .01 * 1 > 0; descent across the slope; ascent; .1 * 1 - .01 * (1 + 16) < 0.
    held = buffer_of([[0.1, 0], [0, 0.1], [-0.1, 0], [0.1, 0.4]])
    assert judge(ZenoPlusPlus(rho=0.01, epsilon=epsilon), held, root_gradient=slope)[0].flagged.tolist() == flagged


@pytest.mark.parametrize("detector", [AflGuard(refresh=3), ZenoPlusPlus(refresh=3)])
def test_trusted_update_is_renewed_after_refresh_versions(detector, buffer_of, judge):
    asked = []

    def counted(model):
        asked.append(1)
        return slope(model)

    for versions, computed in ((3, 1), (4, 2)):
        asked.clear()
        judge(detector, *(buffer_of([[0.1, 0]], version=version) for version in range(versions)), root_gradient=counted)
        assert len(asked) == computed


@pytest.mark.parametrize("kind", [AflGuard, ZenoPlusPlus])
def test_known_noise_is_subtracted(kind, buffer_of, judge, random):
    d, std = 4000, 0.01
    gradient = np.zeros(d)
    gradient[0] = -1
    updates = std * random.normal(size=(10, d))
    updates[:, 0] += 0.1
    # |noise| is .63, six times the update.
    settings = {} if kind is AflGuard else {"rho": 0.01}
    for detector, out in ((kind(**settings), False), (kind(noise="ignored", **settings), True)):
        verdict, _ = judge(detector, buffer_of(updates, std=std), n_parameters=d, root_gradient=lambda model: gradient)
        assert (verdict.flagged == out).all()


@pytest.mark.parametrize("kind", [AflGuard, ZenoPlusPlus])
@pytest.mark.parametrize("size", [1e3, 1e10, 1e19, 3e38])
@pytest.mark.parametrize("sign", [1, -1])
def test_huge_updates_are_left_out(kind, size, sign, buffer_of, judge):
    held = buffer_of([[0.1, 0], [sign * size, 0], [size, -sign * size]])
    with np.errstate(all="raise"):
        verdict, _ = judge(kind(), held, root_gradient=slope)
    assert verdict.flagged.tolist() == [False, True, True]
