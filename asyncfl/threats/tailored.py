"""Tailored: an attack that finds its strength by trials on a copy of the server's defence."""

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import finite_rows, mean_and_deviation
from asyncfl.threats.perturbation import Direction, perturbation


class Tailored(Attack):
    """Uploads mean + gamma p, with the gamma that moves the next model farthest along p without a strike.

    The attackers know the uploads of the honest clients in the buffer, and the rule, detector and strikes with their
    memory. In a rehearsal, a copy of the defences computes the outcome of given uploads. A third of the rehearsals try
    evenly spaced gammas up to `strength`; the others refine the best of these by halving the step. p points away from
    the mean of the known updates and is as long as their median length. If a buffer holds no honest update, the
    attackers use their own honest updates.

    The result is a lower bound on the damage by an attacker that knows the defence: it plans one buffer ahead, searches
    one direction, all attackers upload the same, and no strike is risked. If every gamma is struck, the honest mean is
    sent. Compression of uploads, the server's noise and an algorithm's own step are not rehearsed. Upload noise is
    guessed as normal. Answers to score requests are guessed without score noise, with the current personal layers, and
    with attackers that lie in every version.

    Source: Shejwalkar and Houmansadr 2021, with the server's own defence as the oracle; Fang et al. 2020 for full
    knowledge.
    """

    kind: Literal["tailored"] = "tailored"
    sees: ClassVar[Knowledge] = "buffer"
    rehearses: ClassVar[bool] = True
    direction: Direction = "unit"
    """p: -mean, -deviation, or -sign(mean), coordinate by coordinate, scaled to the median length of the known
    updates."""
    strength: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 10.0
    """Largest gamma to try, > 0; it is used against an undefended server."""
    rehearsals: Annotated[int, Field(ge=1, le=100), MeasuredIn("rehearsals")] = 10
    """Values of gamma to try for each buffer, besides 0, >= 1; each costs one judgement by the server's defences."""

    def craft(self, view: AttackView) -> Vector | None:
        """Return the same upload for all attackers; None (honest updates) if no update is known, rehearsals are
        unavailable, or p is 0."""
        known = finite_rows(view.known)
        known = known if len(known) else finite_rows(view.honest)
        if not len(known) or view.rehearse is None:
            return None
        mean, deviation = mean_and_deviation(known)
        p = perturbation(self.direction, mean, deviation)
        length = float(np.linalg.norm(p))
        if not length:
            return None
        p *= float(np.median([np.linalg.norm(row.astype(np.float64)) for row in known])) / length
        rehearse = view.rehearse

        def damage(gamma: float) -> float:
            """Return the shift of the model along p, in lengths of p; -inf if an attacker is struck."""
            answer = rehearse(view.uploads(lambda row: mean + gamma * p))
            far = float(answer.moved.astype(np.float64) @ p / (p @ p))
            return -np.inf if answer.struck.any() or not np.isfinite(far) else far

        gamma = self._most_damaging(damage)
        return view.uploads(lambda row: mean + gamma * p)

    def _most_damaging(self, damage: Callable[[float], float]) -> float:
        """Return the gamma in 0..`strength` that does the most damage of those tried; 0 if no other does more."""
        best, most = 0.0, damage(0.0)
        # The accepted gammas need not be an interval: a defence may reject large updates and accept larger ones.
        coarse = math.ceil(self.rehearsals / 3)
        for place in range(1, coarse + 1):
            gamma = self.strength * place / coarse
            far = damage(gamma)
            if far > most:
                best, most = gamma, far
        if best == self.strength:
            return best
        step = self.strength / coarse / 2
        gamma = best + step
        for _ in range(self.rehearsals - coarse):
            step /= 2
            far = damage(gamma)
            if far > most:
                best, most = gamma, far
                gamma += step
            else:
                gamma -= step
        return best
