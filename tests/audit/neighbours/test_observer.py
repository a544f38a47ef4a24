"""Whose twins are followed, which of them go on, how far one has gone, and what another clip norm changes elsewhere."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.audit.neighbours.data import Neighbour
from asyncfl.audit.neighbours.observer import AuditedClient, TwinsObserver, so_far


def task(std: float, *distances: float, number: int = 1) -> Any:
    twins = {number: SimpleNamespace(distances=distances)}
    return SimpleNamespace(twins=twins, release=SimpleNamespace(std=std))


def watching(clients: Any = 2, kinds: tuple[str, ...] = ("ascent", "zeroed"), **path: Any) -> TwinsObserver:
    given = {"personal": None, "state": {"remembers": 0}, "data": SimpleNamespace(canaries=None)} | path
    federation: Any = SimpleNamespace(path=SimpleNamespace(**given), resolved=SimpleNamespace(seed=5))
    return TwinsObserver(federation, SimpleNamespace(clients=clients, neighbours=kinds))  # type: ignore[arg-type]


def following(*numbers: int, lengths: Any = (), kind: Any = "ascent") -> AuditedClient:
    followed = [Neighbour(kind, number) for number in numbers]
    twins = {number: SimpleNamespace(distances=(length,)) for number, length in zip(numbers, lengths, strict=False)}
    tasks: Any = {0: SimpleNamespace(twins=twins, release=SimpleNamespace(std=1.0))}
    return AuditedClient(0, followed, dict.fromkeys(numbers, "state"), 40, tasks)  # type: ignore[arg-type]


def test_squared_distances_add_up_in_units_of_the_noise() -> None:
    client: Any = SimpleNamespace(tasks={0: task(2.0, 3.0, 4.0), 1: task(0.0, 5.0), 2: task(1.0, 7.0, number=2)})
    first, second, third = (SimpleNamespace(number=number) for number in (1, 2, 3))
    assert so_far(client, first) == pytest.approx(25 / 4 + 25)  # type: ignore[arg-type]
    assert so_far(client, second) == pytest.approx(49)  # type: ignore[arg-type]
    assert so_far(client, third) == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize(("there", "left"), [(1, 1), (3, 3), (4, 3), (6, 3), (7, 4), (8, 4), (9, 5), (20, 10)])
def test_the_more_distant_half_of_the_twins_goes_on_and_three_at_least(there: int, left: int) -> None:
    audited = following(*range(there), lengths=[float(n % 7) for n in range(there)])
    watching()._halve(audited)
    # The furthest first, and of those as far the first.
    best = sorted(range(there), key=lambda n: (-(n % 7), n))[:left]
    assert [one.number for one in audited.followed] == sorted(best)
    assert sorted(audited.states) == sorted(best)
