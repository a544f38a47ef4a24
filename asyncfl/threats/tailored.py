"""Tailored: an attack that tries on a copy of the defence in place how strong it may be."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.informed import known_to
from asyncfl.threats.perturbation import Direction, perturbation
from asyncfl.threats.row_arithmetic import mean_and_deviation, stack_uploads


class Tailored(Attack):
    """Uploads mean + gamma p, with the gamma found that moves the next model farthest along p without a strike.

    The attackers know what the honest of the buffer sent, and rule, detector and strikes with all that they remember.
    They rehearse: a copy of the defences is asked what would become of the buffer. A third of the rehearsals tries
    gammas evenly spaced up to `strength`, the others halve the distance from the best of these to the next. p, as long
    as the median of the known updates, points away from their mean. Where a buffer holds nobody else, the attackers
    take their own honest updates for the known.

    It is a lower bound on what an attacker can do who knows the defence: it looks one buffer ahead, along one
    direction, all upload the same, and no strike is risked, even one that would not ban; where every gamma is struck,
    the honest mean is sent. Not rehearsed are compression of the uploads and the server's noise. Guessed are the noise
    of uploads (as normal, whatever the scheme draws), and the answers to a detector that asks for scores: without the
    noise of scores, from the personal layers of now, and with attackers lying in every version, whatever the rhythm.
    Source: Shejwalkar and Houmansadr 2021, with the server's own defence for its oracle; Fang et al. 2020 for full
    knowledge.
    """

    kind: Literal["tailored"] = "tailored"
    direction: Direction = "unit"
    """p: -mean, -deviation, or -sign(mean), coordinate by coordinate, as long as the known updates are."""
    strength: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("median lengths")] = 10.0
    """Largest gamma that is tried, > 0: what an undefended server gets."""
    rehearsals: Annotated[int, Field(ge=1, le=100), MeasuredIn("rehearsals")] = 10
    """Values of gamma that are tried for each buffer, beside 0, >= 1; each costs the server's judging once."""

    @property
    def sees(self) -> Knowledge:
        return "buffer"

    @property
    def rehearses(self) -> bool:
        return True

    def craft(self, view: AttackView) -> Vector | None:
        """All upload the same; None, so honest, where nothing is known or nobody can be asked."""
        known = known_to("buffer", view)
        if not len(known):
            known = known_to("colluders", view)
        if not len(known) or view.rehearse is None:
            return None
        mean, deviation = mean_and_deviation(known)
        p = perturbation(self.direction, mean, deviation)
        length = float(np.linalg.norm(p))
        if not length:
            return None
        p *= float(np.median([np.linalg.norm(row.astype(np.float64)) for row in known])) / length
        return self._uploads(mean + self._strongest(view, mean, p) * p, view)

    def _strongest(self, view: AttackView, mean: NDArray[np.float64], p: NDArray[np.float64]) -> float:
        """gamma, see above; 0 where every other one does less."""
        assert view.rehearse is not None

        def damage(gamma: float) -> float:
            """How far the model moves along p, in lengths of p; -inf if somebody is struck for it."""
            assert view.rehearse is not None
            answer = view.rehearse(self._uploads(mean + gamma * p, view))
            far = float(answer.moved.astype(np.float64) @ p / (p @ p))
            return -np.inf if answer.struck.any() or not np.isfinite(far) else far

        best, most = 0.0, damage(0.0)
        # What a defence lets in need not be one interval: large updates may be left out and larger ones not.
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

    def _uploads(self, upload: NDArray[np.float64], view: AttackView) -> Vector:
        return stack_uploads(view.attackers, len(upload), lambda row: upload)
