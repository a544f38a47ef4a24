"""Certificates: published bounds, soundness on honest updates, and removal of conflicts."""

from dataclasses import replace

import numpy as np
import pytest

from asyncfl.defences import Evidence
from asyncfl.defences.certificates import norm_bounds, pair_bounds
from asyncfl.testing import buffer, context

SIGMA = 0.002691558


@pytest.mark.parametrize(
    ("d", "sigma", "b", "q", "lower", "upper", "pair"),
    [
        (50890, SIGMA, 0.19, 6, 0.595436, 0.651948, 0.0468229),
        (50890, SIGMA, 0.95, 6, 0.595436, 1.147163, 0.9263096),
        (203530, SIGMA, 0.19, 6, 1.202696, 1.242860, 0.0561842),
        (50890, SIGMA, 0.095, 6, 0.595436, 0.628405, 0.0190678),
        # lo^2 = .01 (100 - 2 sqrt(200) - 4) = .677157; hi^2 = .25 + .01 (100 + 2 sqrt(200) + 4) + .2 = 1.772843;
        # pair: .25 + 2 sqrt(.01 + .0025 + .0025) = .494949.
        (100, 0.1, 0.5, 2, 0.822896, 1.331481, 0.494949),
    ],
)
def test_published_bounds(d, sigma, b, q, lower, upper, pair):
    sigma, b = np.array([sigma]), np.array([b])
    assert np.concatenate(norm_bounds(d, sigma, b, q)) == pytest.approx([lower, upper], rel=2e-6)
    assert pair_bounds(d, sigma, b, sigma, b, q)[0, 0] == pytest.approx(pair, rel=2e-6)


def test_honest_updates_satisfy_the_bounds():
    random = np.random.default_rng(0)
    n, d = 60, 3000
    sigma, b = random.uniform(0.01, 0.03, n), random.uniform(0.1, 0.5, n)
    common = random.normal(size=d)
    # Worst case of the pair bound: all clients take the longest step in one direction.
    signals = b[:, None] * common / np.linalg.norm(common)
    updates = signals + sigma[:, None] * random.normal(size=(n, d))
    lower, upper = norm_bounds(d, sigma, b, 6)
    lengths = np.linalg.norm(updates, axis=1)
    assert (lower <= lengths).all()
    assert (lengths <= upper).all()
    products = np.abs(updates @ updates.T)[~np.eye(n, dtype=bool)]
    assert (products <= pair_bounds(d, sigma, b, sigma, b, 6)[~np.eye(n, dtype=bool)]).all()


def test_steps_that_depend_on_noise_satisfy_wider_bounds():
    noise = 0.05 * np.random.default_rng(0).standard_normal((20, 4000))
    updates = noise * (1 - 1 / np.linalg.norm(noise, axis=1, keepdims=True))
    lengths = np.linalg.norm(updates, axis=1)
    sigma, b = np.full(20, 0.05), np.ones(20)
    assert (lengths < norm_bounds(4000, sigma, b, 6)[0]).all()
    lower, upper = norm_bounds(4000, sigma, b, 6, noise_between_epochs=True)
    assert ((lower <= lengths) & (lengths <= upper)).all()
    assert (np.linalg.norm(noise, axis=1) + 1 <= upper).all()
    assert norm_bounds(4000, sigma, b * np.inf, 6, noise_between_epochs=True)[0].max() == 0


def test_without_clipping_only_the_lower_bound_is_finite():
    infinite = np.array([np.inf, np.inf])
    for sigma in (np.zeros(2), np.full(2, 0.1)):
        lower, upper = norm_bounds(1000, sigma, infinite, 6)
        assert np.isfinite(lower).all()
        assert np.isinf(upper).all()
        assert np.isinf(pair_bounds(1000, sigma, infinite, sigma, infinite, 6)).all()


# Forged updates in sequences of buffers, for the detector that checks certificates.

D, NOISE = 400, 0.02
UP = np.eye(1, D)[0] * 0.8


def judged(*buffers):
    """Verdict on the last of `buffers`."""
    detector = Evidence()
    state = detector.start(context(10, D, lr=1.0, steps=1, gradient_clip=1.0), np.random.default_rng(0))
    for held in buffers:
        verdict, state = detector.judge(state, held, None)
    return verdict


def noisy(*signals, std=NOISE):
    return np.array(signals) + std * np.random.default_rng(0).standard_normal((len(signals), D))


@pytest.mark.parametrize("forged", [9 * noisy(UP)[0], 0 * UP, 1e19 * UP], ids=["long", "without noise", "huge"])
def test_impossible_lengths_are_struck_at_once(forged):
    rows = noisy(UP, UP, UP)
    rows[1] = forged
    verdict = judged(buffer(rows, clients=[0, 1, 2], upload_std=NOISE, drift=0.0))
    assert verdict.flagged.tolist() == verdict.strikes.tolist() == [False, True, False]
    assert verdict.details[1].startswith("norm")


def test_copy_of_an_earlier_update_is_struck():
    """No other update, not even the sender's own earlier one, can be so similar: noise is independent."""
    sent = buffer(noisy(0 * UP, 0 * UP, std=0.2), upload_std=0.2)
    verdict = judged(sent, replace(sent, clients=np.array([0, 7]), version=1))
    assert verdict.strikes.all()
    assert set(verdict.details) == {"pair with an earlier update"}


def test_too_similar_updates_of_one_buffer_are_not_accused():
    """Row 1 is similar to both others, which are independent. Either may be the copy."""
    rows = noisy(0 * UP, 0 * UP, 0 * UP, std=0.2)
    rows[1] = 0.7 * (rows[0] + rows[2])
    verdict = judged(buffer(rows, upload_std=0.2))
    assert np.flatnonzero(verdict.flagged).tolist() == np.flatnonzero(verdict.strikes).tolist() == []


def test_updates_as_small_as_the_spacing_of_the_weights_are_accepted():
    """A step of .001 with gradients of length .1 moves weights of length 10 by little more than float32 can hold."""
    d, lr, clip = 2000, 1e-3, 0.1
    random = np.random.default_rng(0)
    base = random.standard_normal(d).astype(np.float32)
    base *= np.float32(10 / np.linalg.norm(base))
    shared = random.standard_normal(d)
    detector = Evidence()
    state = detector.start(context(10, d, lr=lr, steps=1, gradient_clip=clip), random)
    for version in range(4):
        gradients = (shared + 0.01 * random.standard_normal((10, d))).astype(np.float32)
        gradients *= np.float32(clip) / np.linalg.norm(gradients, axis=1, keepdims=True)
        held = buffer(-np.float32(lr) * gradients, current=base, version=version, upload_std=0.0, drift=0.0)
        verdict, state = detector.judge(state, held, None)
        assert not verdict.strikes.any()
