"""Mimic: all attackers repeat one honest client, who then counts for many."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from asyncfl.messages import Vector
from asyncfl.threats.attack import AttackView, Knowledge
from asyncfl.threats.informed import Informed
from asyncfl.threats.row_arithmetic import centred_products, mean_and_deviation


class Mimic(Informed):
    """Uploads a copy of one known update (Karimireddy, He and Jaggi 2022).

    Nothing in such an upload is wrong; it harms where clients' data differ and a rule takes the many for the truth.

    Source: Karimireddy, He, Jaggi 2022, mimic attack.
    """

    kind: Literal["mimic"] = "mimic"
    knowledge: Knowledge = "buffer"
    """Whom it can copy: an honest client in the buffer, or (`colluders`) an attacker's honest update."""
    victim: Literal["first", "outlying"] = "first"
    """Who is copied: the first known, or the farthest out along the direction in which updates differ most."""

    @model_validator(mode="after")
    def _check_others(self) -> Mimic:
        if self.knowledge == "own":
            raise ValueError("knowledge must be colluders or buffer, got own: who copies only itself is honest")
        return self

    def copied(self, view: AttackView) -> int | None:
        """The first known; who lies farthest out follows from all of them."""
        finite = np.isfinite(view.known).all(axis=1)
        return int(np.argmax(finite)) if self.victim == "first" and finite.any() else None

    def forge(self, known: Vector, view: AttackView) -> NDArray[np.floating]:
        """The victim's update."""
        if self.victim == "first" or len(known) == 1:
            return np.asarray(known[0])
        mean, _ = mean_and_deviation(known)
        gram, _ = centred_products(known, mean, np.zeros_like(mean))
        # Coordinates along the first principal component are the first eigenvector of the centred Gram matrix.
        along = np.abs(np.linalg.eigh(gram)[1][:, -1])
        return np.asarray(known[int(np.argmax(along))])
