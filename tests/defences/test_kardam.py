import numpy as np
import pytest

from asyncfl.defences import Kardam


def judged(detector, state, buffer_of, delta, client, version, base):
    """Verdict on one update of `client`, computed at model `base`."""
    buffer = buffer_of([delta], clients=[client], bases=[base], base_versions=[version], version=version)
    verdict, state = detector.judge(state, buffer, None)
    return bool(verdict.flagged[0]), state


def test_gradient_with_large_lipschitz_coefficient_is_left_out(buffer_of, context_of, random):
    detector = Kardam(expected_share=0.25, frequency_filter=False)
    state = detector.start(context_of(4), random)
    flags = []
    for client in range(4):  # the first of each cannot be judged
        flag, state = judged(detector, state, buffer_of, [-0.1, 0], client, 0, [0, 0])
        flags.append(flag)
    # lr .1: deltas -.1 (1 + k) are gradients 1 + k, at a distance of 1 from the last model: coefficient k.
    for client, k in enumerate([1, 2, 3, 50]):
        flag, state = judged(detector, state, buffer_of, [-0.1 * (1 + k), 0], client, 1, [0, 1])
        flags.append(flag)
    assert [round(c, 4) for c in state.coefficients.values()] == [1, 2, 3, 50]
    # Quantile of (1), (1, 2), (1, 2, 3) at 3/4 is their largest; of (1, 2, 3, 50) it is 3.
    assert flags == [False] * 4 + [False, False, False, True]


def test_frequency_filter_limits_accepted_updates_of_one_client(buffer_of, judge):
    # f = 2: of five accepted in a row three must come from different clients.
    buffer = buffer_of(np.zeros((7, 2)), clients=[0, 1, 0, 1, 0, 1, 2])
    verdict, state = judge(Kardam(expected_share=0.2), buffer)
    assert verdict.flagged.tolist() == [False] * 4 + [True, True, False]
    assert verdict.details[4] == "2 clients sent the last 5 accepted"
    assert not verdict.strikes.any()
    assert state.accepted == (1, 0, 1, 2)


@pytest.mark.parametrize("size", [1e10, 1e19, 3e38])
def test_overflowing_gradients_are_left_out(size, buffer_of, context_of, random):
    detector = Kardam(expected_share=0.25, frequency_filter=False)
    state = detector.start(context_of(4), random)
    for client in range(4):
        _, state = judged(detector, state, buffer_of, [-0.1, 0], client, 0, [0, 0])
    flags = []
    for client in range(4):
        delta = [size, -size] if client == 3 else [-0.2, 0]
        flag, state = judged(detector, state, buffer_of, delta, client, 1, [0, 1])
        flags.append(flag)
    again, state = judged(detector, state, buffer_of, [size, size], 3, 2, [0, 2])
    assert [*flags, again] == [False, False, False, True, True]
