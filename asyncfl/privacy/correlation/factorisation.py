"""Interface of a factorisation, by which the noise of one version depends on that of earlier ones.

A version v adds a step g_v to the model. With independent standard normal vectors z the server adds C^-1 z to the
steps, in units of a standard deviation: who sees g + C^-1 z sees C g + z, and nothing more. Later noise takes back part
of the earlier, so that sums of steps, which models are, have less noise than with independent noise of as much privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.component import Component
from asyncfl.privacy.correlation.encoder import Encoder

Draw = Callable[[], NDArray[np.floating]]
"""Function () -> (n,) a new vector of independent standard normal noise, which the caller may change."""


class Factorisation(Component):
    """Base class of the factorisations: the noise of each version, and what it hides. A factorisation of your own
    implements `start`, `next`, `std`, `encoder` and `sensitivity`."""

    logged: ClassVar[tuple[str, ...]] = ("rounds.sigma_d", "ledger.exact_epsilon", "ledger.provable")
    one_of: ClassVar[tuple[str, ...]] = ("encoder",)

    @property
    def most_versions(self) -> int:
        """Most versions of a run whose matrix C is worth its memory, some 100 megabytes."""
        return 100_000

    def start(self, versions: int) -> Any:
        """Return the state before the noise of version 1, for a run of `versions` versions: None, or data that can be
        pickled."""
        return None

    def next(self, state: Any, draw: Draw) -> tuple[NDArray[np.floating], Any]:
        """Return the noise (n,) of the next version, and the next state. `draw` gives as much fresh noise as it
        needs."""
        return draw(), state

    def std(self, version: int, versions: int) -> float:
        """Return the standard deviation of each entry of that version's noise."""
        return 1.0

    def encoder(self, versions: int) -> Encoder:
        """Return C of a run of `versions` versions, the same object each time."""
        raise NotImplementedError

    def sensitivity(self, versions: int, participations: int, separation: int) -> float:
        """Return the most that one client can move C g if its updates move at most `participations` steps, at least
        `separation` versions apart, by at most 1 each; an upper bound where the largest is not known."""
        encoder = self.encoder(versions)
        norms = np.sqrt(np.bincount(encoder.version - 1, encoder.value**2, minlength=versions))
        return participations * float(norms.max())

    def separate_columns(self, separation: int) -> bool:
        """Whether steps that are `separation` versions apart enter no row of C together, so that what they cost adds
        up in squares."""
        return False


class Independent(Factorisation):
    """Independent noise for each version, C = I. Source: McMahan, Ramage, Talwar, Zhang 2018, algorithm 1."""

    kind: Literal["independent"] = "independent"

    def encoder(self, versions: int) -> Encoder:
        at = np.arange(versions)
        return Encoder(at, at + 1, np.ones(versions), at + 1)

    def sensitivity(self, versions: int, participations: int, separation: int) -> float:
        return math.sqrt(participations)

    def separate_columns(self, separation: int) -> bool:
        return True


def real_participations(versions: int, participations: int | None, separation: int) -> int:
    """Return the most participations of a client in `versions` versions at least `separation` apart, of which at most
    `participations` are allowed (None: any number)."""
    possible = -(-versions // separation)
    return possible if participations is None else min(participations, possible)
