"""Search for the strength with which an attack moves the next model farthest, on a copy of the server's defences."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.arrays import Floats
from asyncfl.threats.attack import AttackView


def optimal_strength(
    forge: Callable[[float], NDArray[np.floating]], mean: Floats, view: AttackView, rehearsals: int
) -> float | None:
    """Return the strength >= 0 with which the upload of `forge` moves the next model farthest from where it goes if all
    attackers send `mean` (n_parameters,); None where uploads cannot be rehearsed.

    An upload for which an attacker is struck counts as no attack. `rehearsals`: strengths to try. Source: the idea of
    ByzFL's `optimal` attacks; the search is ours.
    """
    rehearse = view.rehearse
    if rehearse is None:
        return None
    unharmed = rehearse(view.uploads(lambda row: mean)).moved.astype(np.float64)

    def harm(strength: float) -> float:
        upload = forge(strength)
        answer = rehearse(view.uploads(lambda row: upload))
        far = float(np.linalg.norm(answer.moved.astype(np.float64) - unharmed))
        return -np.inf if answer.struck.any() or not np.isfinite(far) else far

    return most_harmful(harm, rehearsals)


def most_harmful(harm: Callable[[float], float], tries: int) -> float:
    """Return the strength >= 0 with the largest `harm` of `tries` that are tried, and of 0, whose harm counts as 0.

    Steps from the best strength so far double while it improves; then both sides are tried with steps that halve.
    """
    best, most, step, doubling = 0.0, 0.0, 1.0, True
    while tries > 0:
        improved = False
        for strength in (best + step,) if doubling else (best + step, best - step):
            if strength <= 0 or tries == 0 or improved:
                continue
            tries -= 1
            if (far := harm(strength)) > most:
                best, most, improved = strength, far, True
        doubling = doubling and improved
        step *= 2.0 if doubling else 1.0 if improved else 0.5
    return best
