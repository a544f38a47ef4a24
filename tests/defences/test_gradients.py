import numpy as np
import pytest

from asyncfl.defences.gradients import hessian


def dense(steps, changes):
    """The same estimate by rank-two updates of whole matrices (Broyden, Fletcher, Goldfarb, Shanno)."""
    sigma = steps[-1] @ changes[-1] / (steps[-1] @ steps[-1])
    estimate = sigma * np.eye(len(steps[0]))
    for s, y in zip(steps, changes, strict=True):
        seen = estimate @ s
        estimate = estimate - np.outer(seen, seen) / (s @ seen) + np.outer(y, y) / (y @ s)
    return estimate


def pairs(number, size=6):
    random = np.random.default_rng(number)
    half = random.normal(size=(size, size))
    curvature = half @ half.T + np.eye(size)
    steps = random.normal(size=(number, size))
    return curvature, list(steps), list(steps @ curvature)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_compact_form_equals_bfgs_updates(number):
    _, steps, changes = pairs(number)
    along = np.arange(6.0)
    np.testing.assert_allclose(
        hessian(list(zip(steps, changes, strict=True)))(along), dense(steps, changes) @ along, rtol=1e-8
    )


def test_secant_equation_holds_and_conjugate_steps_give_the_hessian():
    curvature, steps, changes = pairs(3)
    np.testing.assert_allclose(hessian(list(zip(steps, changes, strict=True)))(steps[-1]), changes[-1], rtol=1e-8)
    # Of a quadratic, with steps that are conjugate: nothing is lost.
    axes = list(np.linalg.eigh(curvature)[1].T)
    product = hessian([(axis, curvature @ axis) for axis in axes])
    np.testing.assert_allclose(product(np.ones(6)), curvature @ np.ones(6), rtol=1e-8)
