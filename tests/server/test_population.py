from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.streams import RandomOrder, Streams
from asyncfl.server.population import Population


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "ban", "retire"]), st.integers(0, 6)), max_size=40))
def test_idle_clients_behave_like_a_set(steps: list[tuple[str, int]]) -> None:
    population, idle, banned = Population(7), set(), set()
    for step, client in steps:
        getattr(population, step)(client)
        if step == "add" and client not in banned:
            idle.add(client)
        elif step != "add":
            idle.discard(client)
        if step in ("ban", "retire"):
            banned.add(client)
        assert set(population.idle.tolist()) == idle
        assert [population.is_idle(c) for c in range(7)] == [c in idle for c in range(7)]
    population.add_all()
    assert set(population.idle.tolist()) == set(range(7)) - banned


def everybody(clients: int) -> Population:
    population = Population(clients)
    population.add_all()
    return population


def order(number: int, seed: int = 0) -> RandomOrder:
    return Streams(seed).order("selection", number=number)


@pytest.mark.parametrize("proposals", [64, 1, 0], ids=["by_proposals", "both", "by_ranks"])
def test_each_idle_client_is_drawn_equally_often_in_each_place(proposals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = RandomOrder.proposals
    monkeypatch.setattr(RandomOrder, "proposals", lambda self, n: islice(drawn(self, n), proposals))
    counts = np.zeros((2, 7))
    for number in range(4000):
        population = everybody(7)
        population.remove(2)
        population.remove(6)
        for place, client in enumerate(population.draw(2, order(number))):
            counts[place, client] += 1
    assert counts[:, [2, 6]].sum() == 0
    # 800 expected each; the standard deviation is about 25.
    assert np.abs(counts[:, [0, 1, 3, 4, 5]] - 800).max() < 110


@given(st.lists(st.integers(0, 39), max_size=60), st.integers(1, 12), st.integers(0, 99))
def test_draws_do_not_depend_on_the_order_in_which_clients_became_idle(
    history: list[int], count: int, seed: int
) -> None:
    one, other = everybody(40), everybody(40)
    for client in history:
        one.remove(client)
    for client in sorted(set(history), reverse=True):
        other.remove(client)
    for client in reversed(history[: len(history) // 2]):
        one.add(client)
    for client in sorted(set(history[: len(history) // 2])):
        other.add(client)
    for draw in ("draw", "draw_least_served"):
        assert getattr(one, draw)(count, order(7, seed)) == getattr(other, draw)(count, order(7, seed))


@given(st.sets(st.integers(0, 199), max_size=8), st.integers(1, 60), st.integers(0, 99))
def test_absent_clients_are_replaced_and_other_drawn_clients_stay(away: set[int], count: int, seed: int) -> None:
    all_there, fewer = everybody(200), everybody(200)
    for client in away:
        fewer.remove(client)
    for draw in ("draw", "draw_least_served"):
        before, after = (getattr(p, draw)(count, order(0, seed)) for p in (all_there, fewer))
        stayed = [client for client in before if client not in away]
        assert after[: len(stayed)] == stayed
        all_there.add_all()
        for client in after:
            fewer.add(client)


def test_the_least_served_go_first_whatever_happened_before() -> None:
    population = everybody(4)
    population.served[:] = [2, 0, 1, 0]
    assert set(population.draw_least_served(2, order(0))) == {1, 3}
    assert population.draw_least_served(5, order(0)) == [2, 0]
