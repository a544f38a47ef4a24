"""Fang's attack (OPT): deviates the model from the direction in which it would go, as far as one rule lets it.

Source: Fang, Cao, Jia, Gong 2020. Let s be the signs (+1, -1) of the mean of the known updates: the direction in which
each parameter would change without attack. Let w be the newest model, m the updates of the buffer and c the attackers.

Against Krum (section 3.2) all attackers send w - lambda s. lambda begins at the bound of theorem 1 (equation 3),

    1 / ((m - 2c - 1) sqrt d) min_i sum_(l in the m - c - 2 nearest to i) |w_l - w_i| + 1 / sqrt d max_i |w_i - w|,

over the honest models w_i, and is halved until Krum selects the attackers' model, or lambda is below `threshold`.
Attackers that know only each other (`colluders`) take their own honest updates for those of others, and simulate
Krum on these with one crafted model, then with two and so on, until a lambda is found. The source draws the other
crafted models within a small distance of the first; here they are equal.

Against the trimmed mean (section 3.3) and the median (3.4) parameter j is drawn beyond the honest ones, on the side
away from s_j. With w_max and w_min the largest and smallest honest value: for s_j = -1 between w_max and `stretch`
w_max (or w_max / `stretch`, if w_max < 0), for s_j = +1 between w_min / `stretch` (or `stretch` w_min, if w_min < 0)
and w_min. With `colluders`: between mu + 3 sigma and mu + 4 sigma, or mu - 4 sigma and mu - 3 sigma, of their mean and
deviation.
"""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import centred_products, finite_rows, mean_and_deviation
from asyncfl.threats.perturbation import squared_distances


class Fang(Attack):
    """Uploads a model that deviates farthest from the direction of training while Krum, or a trimmed mean, uses it.

    The attackers need not know which rule the server has. With a single known update they are honest. Source: Fang et
    al. 2020, sections 3.2 to 3.4, directed deviation.
    """

    kind: Literal["fang"] = "fang"
    against: Literal["krum", "trimmed_mean"] = "krum"
    """Rule that the attack is made for; that for the trimmed mean is also the source's attack on the median."""
    knowledge: Knowledge = "colluders"
    """Updates that the attackers know: `buffer` is the source's full knowledge, `colluders` its partial one."""
    threshold: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("parameter")] = 1e-5
    """Against Krum: lambda below which the search ends, > 0."""
    stretch: Annotated[float, Field(gt=1, allow_inf_nan=False), MeasuredIn("factor")] = 2.0
    """b: against the trimmed mean, with full knowledge, the factor that bounds the drawn parameters, > 1."""

    @model_validator(mode="after")
    def _check_knowledge(self) -> Self:
        if self.knowledge == "own":
            raise ValueError("knowledge must be colluders or buffer, got own: a single update shows no deviation")
        return self

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def craft(self, view: AttackView) -> Vector | None:
        known = finite_rows(view.known if self.knowledge == "buffer" else view.honest)
        if len(known) < 2:
            return None
        mean, deviation = mean_and_deviation(known)
        signs = np.where(mean > 0, 1.0, -1.0)
        if self.against == "krum":
            poison = -self._strength(known, signs, view.attackers) * signs
            return view.uploads(lambda row: poison)
        if self.knowledge == "colluders":
            near, far = mean - 3 * signs * deviation, mean - 4 * signs * deviation
        else:
            models = view.current.astype(np.float64) + known
            near = np.where(signs < 0, models.max(axis=0), models.min(axis=0))
            far = np.where(near * signs < 0, self.stretch * near, near / self.stretch) - view.current
            near = near - view.current
        return view.uploads(lambda row: near + view.randoms[row].random(len(mean)) * (far - near))

    def _strength(self, known: Vector, signs: Floats, attackers: int) -> float:
        """Return lambda for the `known` updates (n >= 2, n_parameters) and `attackers` crafted ones; it is below
        `threshold` if Krum selects none of the crafted ones that were tried."""
        products, along = centred_products(known, np.zeros(len(signs)), signs)
        squares = np.diagonal(products)
        among = squared_distances(products)
        strength: float = 0.0
        for crafted in (attackers,) if self.knowledge == "buffer" else range(1, attackers + 1):
            strength = self._bound(among, squares, crafted, len(signs))
            while strength >= self.threshold:
                apart = squares + 2 * strength * along + strength**2 * len(signs)
                if _is_selected(among, np.maximum(apart, 0.0), crafted):
                    return strength
                strength /= 2
        return strength

    def _bound(self, among: Floats, squares: Floats, crafted: int, n_parameters: int) -> float:
        """Return the bound of theorem 1. `among`: (n, n) squared distances of the known updates; `squares`: (n,) their
        squared lengths."""
        m = len(among) + crafted
        nearest = np.sort(np.sqrt(among), axis=1)[:, 1 : 1 + max(1, m - crafted - 2)]
        root = float(np.sqrt(n_parameters))
        least = float(nearest.sum(axis=1).min()) / (max(1, m - 2 * crafted - 1) * root)
        return least + float(np.sqrt(squares.max())) / root


def _is_selected(among: Floats, apart: Floats, crafted: int) -> bool:
    """Return whether Krum, told of `crafted` attackers, selects one of as many equal updates. `among`: (n, n) squared
    distances of the others; `apart`: (n,) of the others to these."""
    n = len(among) + crafted
    neighbours = max(1, n - crafted - 2)
    equal = np.sort(np.concatenate([np.zeros(crafted - 1), apart]))[:neighbours].sum()
    others = among + np.diag(np.full(len(among), np.inf))
    scores = np.sort(np.concatenate([others, np.repeat(apart[:, None], crafted, axis=1)], axis=1), axis=1)
    return bool(equal < scores[:, :neighbours].sum(axis=1).min())
