from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import ComponentError
from asyncfl.base.streams import RandomOrder, Streams
from asyncfl.server.population import Population
from asyncfl.server.selection import Selection


def everybody(clients: int = 6) -> Population:
    population = Population(clients)
    population.add_all()
    return population


def order(number: int = 0) -> RandomOrder:
    return Streams(0).order("selection", number=number)


class Highest(Selection):
    """Selects the clients with the highest numbers."""

    kind: str = "highest"

    def choose(self, count: int, idle: Any, served: Any, random: Any) -> Any:
        assert idle.tolist() == [0, 2, 3, 4, 5]
        assert served.tolist() == [7, 0, 0, 8, 0]
        return idle[::-1][:count]


class Answering(Selection):
    """Returns the configured clients."""

    kind: str = "answering"
    clients: tuple[float, ...] = ()
    whole: bool = True

    def choose(self, count: int, idle: Any, served: Any, random: Any) -> Any:
        return np.array(self.clients, dtype=np.int64 if self.whole else np.float64)


class Shuffled(Selection):
    kind: str = "shuffled"

    def choose(self, count: int, idle: Any, served: Any, random: np.random.Generator) -> Any:
        return random.permutation(idle)[:count]


def test_a_custom_selection_receives_idle_clients_and_their_task_counts() -> None:
    population = everybody()
    population.remove(1)
    population.served[:] = [7, 9, 0, 0, 8, 0]
    assert Highest().draw(population, 2, order()) == [5, 4]
    assert population.idle.tolist() == [0, 2, 3]


def test_each_draw_has_a_generator_of_its_own_and_the_same_each_time() -> None:
    drawn = [tuple(Shuffled().draw(everybody(50), 5, order(number))) for number in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answering(clients=(0,)), r"answering: choose must be \(2,\) integers, got 0"),
        (Answering(clients=(0, 1), whole=False), r"choose must be \(2,\) integers, got \(2,\) float64"),
        (Answering(clients=(3, 3)), r"choose must be different clients that are idle, got list \[3, 3\]"),
        (Answering(clients=(0, 1)), r"choose must be different clients that are idle, got list \[0, 1\]"),
        (Answering(clients=(0, 6)), r"choose must be different clients that are idle, got list \[0, 6\]"),
    ],
)
def test_invalid_choices_are_refused_and_no_client_becomes_busy(answer: Selection, said: str) -> None:
    population = everybody()
    population.remove(1)
    with pytest.raises(ComponentError, match=said):
        answer.draw(population, 2, order())
    assert population.idle.tolist() == [0, 2, 3, 4, 5]
