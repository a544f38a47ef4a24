"""Which of the idle clients are given a task.

How many are asked, and when, is the dispatch policy's affair; here it is decided who. Whoever is drawn is busy from
then on, so that nobody is drawn twice at a time.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.answers import require
from asyncfl.component import Component
from asyncfl.server.population import Population
from asyncfl.streams import RandomOrder


class Selection(Component):
    """Decides who is asked. One of your own writes `choose`."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.tasks",
        "events.dispatched",
    )

    @property
    def tells_losses(self) -> bool:
        """Whether it goes by the losses that clients tell in the clear, so that who is asked says something of them."""
        return False

    def choose(
        self, count: int, idle: NDArray[np.int64], served: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """(count,) numbers of the clients that are asked, all different, in the order in which they are asked.

        `count`: 1..n_idle. `idle`: (n_idle,) numbers of the idle clients, ascending. `served`: (n_idle,) tasks that
        each of them has been given so far. `random`: a generator of its own for each draw.
        """
        raise NotImplementedError

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """The clients that are asked, `count` or all idle ones where those are fewer; they are idle no longer.

        This is what a run calls. Choosing looks at all who are idle; a selection that does not have to writes `draw`
        instead. Raises ComponentError where `choose` answers with anything else than so many different idle clients.
        """
        idle = population.idle
        count = min(count, len(idle))
        if count <= 0:
            return []
        chosen = self.choose(count, idle, population.served[idle], order.generator())
        numbers = isinstance(chosen, np.ndarray) and chosen.dtype.kind in "iu" and chosen.shape == (count,)
        require(numbers, self, "choose", f"must be ({count},) integers", chosen)
        right = len(np.unique(chosen)) == count and bool(np.isin(chosen, idle).all())
        require(right, self, "choose", "must be different clients that are idle", chosen.tolist())
        drawn: list[int] = chosen.tolist()
        for client in drawn:
            population.remove(client)
        return drawn


class UniformSelection(Selection):
    """Anybody: each of the idle is as likely to be asked as any other. Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["uniform"] = "uniform"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """The first of the idle in a random order, see `Population.draw`."""
        return population.draw(count, order)


class FairSelection(Selection):
    """Whoever was given the fewest tasks so far; who among equals is left to chance. Source: ours."""

    kind: Literal["fair"] = "fair"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """The least served of the idle, see `Population.draw_least_served`."""
        return population.draw_least_served(count, order)
