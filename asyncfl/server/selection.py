"""Client selection: which of the idle clients are given tasks.

The dispatch policy decides how many, and when. A selected client is busy from then on, so that it is not selected
twice.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.answers import require
from asyncfl.base.component import Component
from asyncfl.base.streams import RandomOrder
from asyncfl.server.population import Population


class Selection(Component):
    """Base class of client selections. A selection of your own implements `choose`."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.tasks",
        "events.dispatched",
    )

    @property
    def tells_losses(self) -> bool:
        """Whether the selection depends on losses that clients report in the clear, so that it reveals something about
        them."""
        return False

    def choose(
        self, count: int, idle: NDArray[np.int64], served: NDArray[np.int64], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose (count,) different clients, in the order in which they are asked.

        `count`: 1..n_idle. `idle`: (n_idle,) numbers of the idle clients, ascending. `served`: (n_idle,) tasks that
        each of them has been given so far. `random`: a generator of its own for each draw.
        """
        raise NotImplementedError

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """Select `count` clients, or all idle clients if they are fewer, mark them as busy and return their numbers.

        The server calls this method. `choose` is given all idle clients; a selection that does not need them can
        override `draw` instead.

        Raises: ComponentError if `choose` does not return `count` different idle clients.
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
    """Select idle clients uniformly at random. Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["uniform"] = "uniform"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """Select the first idle clients in a random order, see `Population.draw`."""
        return population.draw(count, order)


class FairSelection(Selection):
    """Select the clients with the fewest tasks so far, ties at random. Source: ours."""

    kind: Literal["fair"] = "fair"

    def draw(self, population: Population, count: int, order: RandomOrder) -> list[int]:
        """Select the least served idle clients, see `Population.draw_least_served`."""
        return population.draw_least_served(count, order)
