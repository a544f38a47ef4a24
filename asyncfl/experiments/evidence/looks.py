"""After how many seeds one may look, and what level each look has.

With one look, both answers are given at 2.5 % (a two-sided interval of 95 %). Who looks several times and stops at the
first crossing errs more often; so each look has a smaller level (Pocock 1977: the same at each), such that over all
looks the error in each direction is 2.5 %. Looks at 3, 6 and 12 seeds: |t| > 7.23, 3.43, 2.76, by simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asyncfl.experiments.evidence.samples import Seeds

ALPHA = 0.025
"""Error of each answer over all looks, in each direction."""
POCOCK: dict[tuple[int, ...], float] = {(3, 6, 12): 0.0093}
"""Looks -> error of each look in each direction. For other looks ALPHA is divided by their number, which is safe."""
FUTILE_T = 1.0
"""At the last look but one nothing is decided any more, and no seeds are added, where |t| is smaller."""


@dataclass(frozen=True)
class Looks:
    """A plan: at how many of its seeds answers may be given."""

    seeds: tuple[int, ...] = ()
    """All seeds, in the order in which they are run."""
    at: tuple[int, ...] = ()
    """Numbers of seeds, ascending; empty: one look, at whatever there is."""

    @property
    def alpha(self) -> float:
        """Error of each look, in each direction."""
        return ALPHA if len(self.at) < 2 else POCOCK.get(self.at, ALPHA / len(self.at))

    def cuts(self, seeds: Seeds) -> Iterator[tuple[int, Seeds]]:
        """(number of the look from 0, the seeds of it) of each look for which `seeds` are enough.

        Where they are not enough for the first, that look is made with what there is.
        """
        if not self.at:
            yield 0, seeds
            return
        for number, count in enumerate(self.at):
            wanted = np.array(self.seeds[:count], dtype=np.int64)
            if np.isin(wanted, seeds).all():
                yield number, wanted
            elif number == 0:
                yield 0, seeds[np.isin(seeds, wanted)]
                return
            else:
                return

    def is_last_but_one(self, number: int) -> bool:
        """Whether this is the look at which hopeless comparisons are given up."""
        return number == len(self.at) - 2

    def after(self, number: int) -> int | None:
        """How many seeds the next look has; None after the last one."""
        return self.at[number + 1] if number + 1 < len(self.at) else None


ONE_LOOK = Looks()
