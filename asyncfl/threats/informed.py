"""Base classes of attacks that compute one poisoned update from known updates.

The field `knowledge` determines mean and deviation. `own`: each attacker uses its own honest update as the mean,
without deviation. `colluders`: both are estimated from the attackers' honest updates, before noise; this is the usual
assumption that attackers know only each other. `buffer`: both are computed from the uploads of the honest clients in
the buffer, with noise. No client could see these in time, so this is the worst case. If no update is known (a buffer of
attackers alone), attackers upload their honest updates.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.base.messages import Floats, Vector
from asyncfl.threats.attack import Attack, AttackView, Knowledge
from asyncfl.threats.row_arithmetic import finite_rows, mean_and_deviation, stack_uploads


class Informed(Attack):
    """Base class of attacks that are computed from known updates. Attackers with the same knowledge upload the same
    update."""

    knowledge: Knowledge = "colluders"
    """Updates that the attack uses: each attacker's own, all attackers' in the buffer, or those of the honest clients
    in it."""

    @property
    def sees(self) -> Knowledge:
        return self.knowledge

    def craft(self, view: AttackView) -> Vector:
        """Return the update of `forge` from the known finite updates as each attacker's upload, see `Attack.craft`.

        An attacker that knows no finite update, or for which `forge` returns None, uploads its honest update.
        """
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
        """Return the poisoned update (n_parameters,) computed from `known` (n >= 1, n_parameters), all finite.

        None: it cannot be computed from so few updates, and the attacker uploads its honest update.
        """
        raise NotImplementedError


class Deviating(Informed):
    """Base class of attacks that use the deviation of known updates and therefore need at least two."""

    alone: Literal["honest", "flip"] = "honest"
    """Upload of an attacker that knows a single update: that update, or its negative."""

    @model_validator(mode="after")
    def _check_deviation(self) -> Deviating:
        if self.knowledge == "own" and self.alone == "honest":
            raise ValueError(
                "knowledge must be colluders or buffer, got own: a single update has no deviation to attack with; "
                "alternatively set alone: flip, which makes it a sign flip"
            )
        return self

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating] | None:
        if len(known) == 1:
            only: Vector = known[0]
            return -only if self.alone == "flip" else only
        return self.deviate(known, *mean_and_deviation(known), view)

    @abstractmethod
    def deviate(self, known: Vector, mean: Floats, deviation: Floats, view: AttackView) -> Floats:
        """Return the poisoned update (n_parameters,) from `known` (n >= 2, n_parameters), and its `mean` and standard
        `deviation` in each parameter, both (n_parameters,)."""
        raise NotImplementedError


def known_to(knowledge: Knowledge, view: AttackView) -> Vector:
    """Return the finite updates (n, n_parameters) that attackers with this `knowledge` (not `own`) see."""
    return finite_rows(view.known if knowledge == "buffer" else view.honest)
