"""AFLGuard and Zeno++: filters that compare with the server's own samples."""

import numpy as np
import pytest

from asyncfl.defences import AflGuard, ZenoPlusPlus
from asyncfl.defences.update_filters import root_gradient, root_update


def slope(model):
    """Gradient of a loss that falls along the first axis."""
    return np.array([-1.0, 0.0])


@pytest.mark.parametrize("detector", [AflGuard(), ZenoPlusPlus()])
def test_root_set_is_required(detector, context_of, random):
    with pytest.raises(ValueError, match=r"none; set defence.root_samples"):
        detector.start(context_of(), random)


def test_root_update_takes_clipped_steps(context_of):
    context = context_of(root_gradient=lambda w: np.array([0.0, 8.0]), lr=0.5, steps=3, gradient_clip=2.0)
    assert root_gradient(context, np.zeros(2, dtype=np.float32)).tolist() == [0, 2]
    assert root_update(context, np.ones(2, dtype=np.float32)).tolist() == [0, -3]


def test_aflguard_limits_the_difference_from_the_servers_update(buffer_of, context_of, random):
    # The server's update is (.1, 0): 1.5 times .1 is allowed.
    detector = AflGuard()
    state = detector.start(context_of(root_gradient=slope), random)
    verdict, _ = detector.judge(state, buffer_of([[0.1, 0.14], [0.1, 0.16], [-0.04, 0], [-0.06, 0]]), None)
    assert verdict.flagged.tolist() == [False, True, False, True]
    assert verdict.details[3] == "differs by 0.16, allowed 0.15"
    assert not verdict.strikes.any()


def test_zeno_requires_descent_in_proportion_to_length(buffer_of, context_of, random):
    # g = -10 delta; score .1 <v, g> - rho |g|^2 with v = (-1, 0).
    detector = ZenoPlusPlus(rho=0.01)
    state = detector.start(context_of(root_gradient=slope), random)
    # .1 * 1 - .01 * 1 > 0; descent across the slope; ascent; .1 * 1 - .01 * (1 + 16) < 0.
    verdict, _ = detector.judge(state, buffer_of([[0.1, 0], [0, 0.1], [-0.1, 0], [0.1, 0.4]]), None)
    assert verdict.flagged.tolist() == [False, True, True, True]
    lenient, _ = ZenoPlusPlus(rho=0.01, epsilon=0.8).judge(
        state, buffer_of([[0.1, 0], [0, 0.1], [-0.1, 0], [0.1, 0.4]]), None
    )
    assert lenient.flagged.tolist() == [False, False, True, False]


@pytest.mark.parametrize(("detector", "after"), [(AflGuard(refresh=3), 3), (ZenoPlusPlus(refresh=3), 3)])
def test_trusted_update_is_renewed_after_refresh_versions(detector, after, buffer_of, context_of, random):
    asked = []

    def counted(model):
        asked.append(1)
        return slope(model)

    state = detector.start(context_of(root_gradient=counted), random)
    for version in range(after + 1):
        _, state = detector.judge(state, buffer_of([[0.1, 0]], version=version), None)
        assert len(asked) == (1 if version < after else 2)


@pytest.mark.parametrize("kind", [AflGuard, ZenoPlusPlus])
def test_known_noise_is_subtracted(kind, buffer_of, context_of, random):
    d, std = 4000, 0.01
    gradient = np.zeros(d)
    gradient[0] = -1
    context = context_of(10, d, root_gradient=lambda model: gradient)
    updates = std * random.normal(size=(10, d))
    updates[:, 0] += 0.1
    buffer = buffer_of(updates, std=std)
    # |noise| is .63, six times the update.
    settings = {} if kind is AflGuard else {"rho": 0.01}
    accounted, literal = kind(**settings), kind(noise="ignored", **settings)
    assert not accounted.judge(accounted.start(context, random), buffer, None)[0].flagged.any()
    assert literal.judge(literal.start(context, random), buffer, None)[0].flagged.all()


HUGE = [1e3, 1e10, 1e19, 3e38]


@pytest.mark.parametrize("kind", [AflGuard, ZenoPlusPlus])
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("sign", [1, -1])
def test_huge_updates_are_left_out(kind, size, sign, buffer_of, context_of, random):
    detector = kind()
    state = detector.start(context_of(root_gradient=slope), random)
    with np.errstate(all="raise"):
        verdict, _ = detector.judge(state, buffer_of([[0.1, 0], [sign * size, 0], [size, -sign * size]]), None)
    assert verdict.flagged.tolist() == [False, True, True]
