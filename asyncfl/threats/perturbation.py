"""Min-Max and Min-Sum: the upload mean + gamma p, with gamma as large as a distance bound allows.

Source: Shejwalkar and Houmansadr 2021. p points away from the mean of the known updates. With x_i the known updates and
e_i = x_i - mean, the squared distance to x_i is quadratic in gamma:

    |mean + gamma p - x_i|^2 = gamma^2 |p|^2 - 2 gamma <p, e_i> + |e_i|^2.

The source approaches the largest admissible gamma by halving. Here it is computed from the (n, n) matrix <e_i, e_j> and
the n products <p, e_i>, with one pass over the parameters.
"""

from abc import abstractmethod
from typing import Literal, TypeAlias

import numpy as np

from asyncfl.base.arrays import Floats, Vector
from asyncfl.threats.attack import AttackView
from asyncfl.threats.informed import Deviating, centred_products

Direction: TypeAlias = Literal["unit", "std", "sign"]


class Perturbing(Deviating):
    """Base class of Min-Max and Min-Sum; subclasses bound gamma."""

    direction: Direction = "std"
    """p: -mean, -deviation, or -sign(mean), coordinate by coordinate; its length does not matter."""

    def deviate(self, known: Vector, mean: Floats, deviation: Floats, view: AttackView) -> Floats:
        p = perturbation(self.direction, mean, deviation)
        squared = float(p @ p)
        if squared == 0:
            return mean
        gram, along = centred_products(known, mean, p)
        return mean + self.largest(squared, along, gram) * p

    @abstractmethod
    def largest(self, squared: float, along: Floats, gram: Floats) -> float:
        """Return the largest admissible gamma, >= 0, from |p|^2 > 0, (n,) <p, e_i> and (n, n) <e_i, e_j>."""
        raise NotImplementedError


def perturbation(direction: Direction, mean: Floats, deviation: Floats) -> Floats:
    """Return the direction p (n_parameters,), of any length."""
    if direction == "std":
        return -deviation
    return -np.sign(mean) if direction == "sign" else -mean


def squared_distances(gram: Floats) -> Floats:
    """Return the squared distances (n, n) between n vectors with inner products `gram` (n, n)."""
    own = gram.diagonal()
    return np.asarray(np.maximum(own[:, None] + own[None, :] - 2 * gram, 0.0))


def larger_root(squared: float, along: Floats, slack: Floats) -> Floats:
    """Return gamma >= 0 with gamma^2 `squared` - 2 gamma `along` = `slack`, elementwise; negative slack counts as 0.
    `slack` is the limit on the squared distance to x_i, minus |e_i|^2."""
    slack = np.maximum(slack, 0.0)
    return np.asarray((along + np.sqrt(along**2 + squared * slack)) / squared)


class MinMax(Perturbing):
    """Uploads mean + gamma p for the largest gamma with max_i |upload - x_i| <= max_ij |x_i - x_j|. Source: Shejwalkar
    and Houmansadr 2021."""

    kind: Literal["min_max"] = "min_max"

    def largest(self, squared: float, along: Floats, gram: Floats) -> float:
        limit = squared_distances(gram).max()
        return float(larger_root(squared, along, limit - gram.diagonal()).min())


class MinSum(Perturbing):
    """Uploads mean + gamma p for the largest gamma with sum_i |upload - x_i|^2 <= max_i sum_j |x_i - x_j|^2. Source:
    Shejwalkar and Houmansadr 2021."""

    kind: Literal["min_sum"] = "min_sum"

    def largest(self, squared: float, along: Floats, gram: Floats) -> float:
        limit = squared_distances(gram).sum(axis=1).max()
        slack = (limit - np.trace(gram)) / len(gram)
        return float(larger_root(squared, np.asarray(along.mean()), np.asarray(slack)))
