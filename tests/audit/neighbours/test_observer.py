"""How far twins have gone, and which of them are followed."""

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.audit.neighbours.data import Neighbour
from asyncfl.audit.neighbours.observer import AuditedClient
from tests.audit.neighbours.test_truth import observed


def task(std: float, **distances: tuple[float, ...]) -> Any:
    twins = {int(number[1:]): SimpleNamespace(distances=of) for number, of in distances.items()}
    return SimpleNamespace(twins=twins, release=SimpleNamespace(std=std))


def test_twins_are_sorted_by_squared_distances_in_units_of_the_noise() -> None:
    followed = [Neighbour("noise", number) for number in (1, 2, 3, 4)] + [Neighbour("zeroed", 5)]
    tasks: Any = {0: task(2.0, _1=(3.0, 4.0)), 1: task(0.0, _1=(5.0,)), 2: task(1.0, _2=(7.0,))}
    client = AuditedClient(0, followed, {}, 6, tasks)
    assert [client.so_far(one) for one in followed] == pytest.approx([25 / 4 + 25, 49, 0, 0, 0])
    # Of twins that went equally far, the first comes first.
    assert [one.number for one in client.furthest_first("noise")] == [2, 1, 3, 4]
    assert client.furthest_first("ascent") == []


@pytest.mark.parametrize(("tried", "left"), [(2, 2), (3, 3), (4, 3), (7, 4), (8, 4), (9, 5)])
def test_the_more_distant_half_of_the_twins_goes_on_and_three_at_least(tried: int, left: int) -> None:
    private = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.05, "noise_multiplier": 1.0}}
    observer, _ = observed(private, clients=(0,), neighbours=("noise",), twins=tried)
    client = observer.clients[0]
    [first] = client.tasks.values()
    assert len(first.twins) == tried
    furthest = sorted(first.twins, key=lambda number: -first.twins[number].distance)[:left]
    assert [one.number for one in client.followed] == sorted(furthest) == sorted(client.states)
