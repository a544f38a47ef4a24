"""Mimic: all attackers upload a copy of one honest client's update, which then counts several times."""

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.base.arrays import Vector
from asyncfl.threats.attack import AttackView, Knowledge
from asyncfl.threats.informed import Informed, centred_products, mean_and_deviation


class Mimic(Informed):
    """Uploads a copy of one known update.

    The upload itself is honest. The attack harms training if clients' data differ and the rule follows the majority.

    Source: Karimireddy, He, Jaggi 2022, mimic attack.
    """

    kind: Literal["mimic"] = "mimic"
    knowledge: Knowledge = "buffer"
    """Updates that may be copied: those of honest clients in the buffer, or (`colluders`) the attackers' honest
    updates."""
    victim: Literal["first", "outlying"] = "first"
    """Update to copy: the first known, or the one farthest out along the first principal component."""

    @model_validator(mode="after")
    def _check_others(self) -> Self:
        if self.knowledge == "own":
            raise ValueError(
                "knowledge must be colluders or buffer, got own: a client that copies its own update is honest"
            )
        return self

    def copied(self, view: AttackView) -> int | None:
        """Return the index of the first finite row of `view.known` for victim `first`, see `Attack.copied`."""
        finite = np.isfinite(view.known).all(axis=1)
        return int(np.argmax(finite)) if self.victim == "first" and finite.any() else None

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        if self.victim == "first" or len(known) == 1:
            return np.asarray(known[0])
        mean, _ = mean_and_deviation(known)
        gram, _ = centred_products(known, mean, np.zeros_like(mean))
        # Coordinates along the first principal component are the first eigenvector of the centred Gram matrix.
        along = np.abs(np.linalg.eigh(gram)[1][:, -1])
        return np.asarray(known[int(np.argmax(along))])
