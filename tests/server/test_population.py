from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.server.population import Population


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "ban", "retire"]), st.integers(0, 6)), max_size=40))
def test_it_knows_who_is_idle_like_a_set_would(steps: list[tuple[str, int]]) -> None:
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


@given(st.integers(0, 12), st.integers(0, 1000))
def test_it_draws_different_idle_clients_who_are_then_busy(count: int, seed: int) -> None:
    population = Population(8)
    population.add_all()
    population.remove(3)
    drawn = population.draw(count, np.random.default_rng(seed))
    assert len(drawn) == len(set(drawn)) == min(count, 7)
    assert 3 not in drawn
    assert not set(drawn) & set(population.idle.tolist())


def test_each_idle_client_is_drawn_equally_often() -> None:
    random = np.random.default_rng(0)
    counts = np.zeros(5)
    for _ in range(4000):
        population = Population(5)
        population.add_all()
        for client in population.draw(2, random):
            counts[client] += 1
    # 1600 expected each; the standard deviation is about 31.
    assert np.abs(counts - 1600).max() < 130


def test_the_least_served_go_first_whatever_happened_before() -> None:
    population = Population(4)
    population.add_all()
    population.served[:] = [2, 0, 1, 0]
    assert set(population.draw_least_served(2, np.random.default_rng(0))) == {1, 3}
    assert population.draw_least_served(5, np.random.default_rng(0)) == [2, 0]


def test_it_knows_why_nobody_will_come_again() -> None:
    population = Population(2)
    population.ban(0)
    assert population.why_nobody is None
    population.ban(1)
    assert population.why_nobody == "every client is banned"
    spent = Population(2)
    spent.retire(1)
    spent.retire(0)
    assert spent.why_nobody == "every client has spent its budget"
    both = Population(2)
    both.retire(1)
    both.ban(0)
    assert both.why_nobody == "every client is banned or has spent its budget"
    both.ban(1)
    assert both.why_nobody == "every client is banned"
