"""Attacks that look at updates, their own or those of others, and compute one poisoned update from them.

Knowledge decides what mean and deviation are: `own` gives each attacker a mean of its own, which is its own honest
update, and no deviation; `colluders` estimates both from the attackers' honest updates, before noise (the usual
assumption: attackers know each other and nobody else); `buffer` from what the honest clients in the buffer sent, with
their noise, which no client could see in time: the worst case. Where nothing is known (a buffer of attackers alone),
attackers upload their honest updates.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.messages import Vector
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.row_arithmetic import finite_rows, mean_and_deviation, stack_uploads


class Informed(Attack):
    """Base of attacks that are computed from known updates. All who know the same upload the same."""

    knowledge: Knowledge = "colluders"
    """Whose updates it is computed from: its own, all attackers' in the buffer, or those of the honest in it."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def craft(self, view: AttackView) -> Vector:
        """What `forge` makes of the finite updates that are known; an attacker that knows none is honest."""
        if self.knowledge == "own":
            rows = [finite_rows(view.honest[row : row + 1]) for row in range(view.attackers)]
            forged = [self.forge(known, view) if len(known) else None for known in rows]
        else:
            known = known_to(self.knowledge, view)
            forged = [self.forge(known, view) if len(known) and view.attackers else None] * view.attackers

        def upload(row: int) -> NDArray[np.floating]:
            poison = forged[row]
            return view.honest[row] if poison is None else poison

        return stack_uploads(view.attackers, view.honest.shape[1], upload)

    @abstractmethod
    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating] | None:
        """(n_parameters,) the poisoned update computed from `known` (n >= 1, n_parameters), all finite.

        None: not to be had from so little; the attacker uploads its honest update.
        """
        raise NotImplementedError


class Deviating(Informed):
    """Base of attacks that need the deviation of known updates, hence two of them."""

    alone: Literal["honest", "flip"] = "honest"
    """What an attacker does that knows a single update: upload it as it is, or negated."""

    @model_validator(mode="after")
    def _check_deviation(self) -> Deviating:
        if self.knowledge == "own" and self.alone == "honest":
            raise ValueError(
                "knowledge must be colluders or buffer, got own: one's own update has no deviation, so there would be "
                "no attack (or set alone: flip, and it is a sign flip)"
            )
        return self

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating] | None:
        """What `deviate` makes of at least two updates; of a single one, what `alone` says."""
        if len(known) == 1:
            only: Vector = known[0]
            return -only if self.alone == "flip" else only
        return self.deviate(known, *mean_and_deviation(known), view)

    @abstractmethod
    def deviate(
        self, known: Vector, mean: NDArray[np.float64], deviation: NDArray[np.float64], view: AttackView
    ) -> NDArray[np.float64]:
        """(n_parameters,) the poisoned update from `known` (n >= 2, n_parameters), its mean and its deviation."""
        raise NotImplementedError


def known_to(knowledge: Knowledge, view: AttackView) -> Vector:
    """(n, n_parameters) the finite updates that attackers with `knowledge` beyond their own see together."""
    return finite_rows(view.known if knowledge == "buffer" else view.honest)
