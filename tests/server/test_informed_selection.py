"""Client selection by reported losses and durations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.streams import Streams
from asyncfl.scenario import Scenario
from asyncfl.server.population import Population
from asyncfl.server.selection import InformedSelection, Oort, PowerOfChoice
from asyncfl.simulation import simulate_clock, simulate_seed


def everybody(samples: list[int], losses: list[float], durations_s: list[float] | None = None) -> Population:
    population = Population(len(samples), np.array(samples))
    population.add_all()
    population.statistics.losses[:] = losses
    population.statistics.durations_s[:] = [1.0] * len(samples) if durations_s is None else durations_s
    population.statistics.versions[:] = 1
    return population


def drawn(selection: InformedSelection, population: Population, count: int, number: int = 0) -> list[int]:
    found = selection.draw(population, count, Streams(0).order("selection", number=number))
    for client in found:
        population.add(client)
    return found


def test_two_candidates_worked_out_by_hand() -> None:
    # Of three clients alike, two are candidates: the highest loss is asked unless it is not among them (1 in 3).
    population = everybody([5, 5, 5], [0.3, 0.2, 0.1])
    picked = [drawn(PowerOfChoice(candidates=2), population, 1, number)[0] for number in range(3000)]
    np.testing.assert_allclose(np.bincount(picked, minlength=3) / 3000, [2 / 3, 1 / 3, 0], atol=0.03)


def test_utility_worked_out_by_hand() -> None:
    population = everybody([10, 10, 20], [1.0, 2.0, 1.0], [4.0, 8.0, 2.0])
    statistics = population.statistics
    statistics.version = 8
    statistics.versions[:] = [8, 2, 8]
    oort = Oort(preferred_s=4.0, clip_quantile=1.0)
    expected = [
        10 + math.sqrt(0.1 * math.log(8) / 8),
        (20 + math.sqrt(0.1 * math.log(8) / 2)) * (4 / 8) ** 2,
        20 + math.sqrt(0.1 * math.log(8) / 8),
    ]
    assert oort.utility(np.arange(3), statistics) == pytest.approx(expected)
    # Without a preference the median of 2, 4 and 8 s is it.
    assert Oort(clip_quantile=1.0).utility(np.arange(3), statistics) == pytest.approx(expected)
    assert Oort(preferred_s=4.0, clip_quantile=0.0).utility(np.array([0, 2]), statistics)[1] == pytest.approx(
        expected[0]
    )


def test_exploration_falls_with_the_versions_to_its_least() -> None:
    population = everybody([1] * 100, [1.0] * 50 + [math.nan] * 50)
    oort = Oort(exploration=0.8, decay=0.5, least_exploration=0.1)
    for version, explored in ((0, 16), (1, 8), (2, 4), (9, 2)):
        population.statistics.version = version
        assert sum(client >= 50 for client in drawn(oort, population, 20)) == explored
    population.statistics.losses[:] = math.nan
    assert len(set(drawn(oort, population, 20))) == 20


values = st.floats(0, 10) | st.just(math.nan)


@given(
    clients=st.lists(st.tuples(st.integers(1, 50), values, values), min_size=1, max_size=12),
    count=st.integers(0, 15),
    away=st.sets(st.integers(0, 11)),
    version=st.integers(0, 100),
    selection=st.sampled_from([PowerOfChoice(candidates=3), PowerOfChoice(candidates=0.5), Oort(), Oort(cutoff=0.0)]),
)
def test_so_many_different_idle_clients_are_asked(
    clients: list[tuple[int, float, float]], count: int, away: set[int], version: int, selection: InformedSelection
) -> None:
    samples, losses, durations_s = (list(column) for column in zip(*clients, strict=True))
    population = everybody(samples, losses, durations_s)
    population.statistics.version = version
    for client in away:
        if client < len(clients):
            population.remove(client)
    idle = set(population.idle.tolist())
    found = selection.draw(population, count, Streams(1).order("selection"))
    assert len(found) == len(set(found)) == min(count, len(idle))
    assert set(found) <= idle
    assert set(population.idle.tolist()) == idle - set(found)


@pytest.mark.parametrize("selection", [{"kind": "power_of_choice", "candidates": 0.9}, {"kind": "oort"}])
@pytest.mark.parametrize("protocol", ["sync", "buffered"])
def test_informed_selections_run_in_whole_seeds(
    scenario: Scenario, selection: dict[str, object], protocol: str
) -> None:
    changes = {"data.clients": 8, "protocol.rounds": 5, "protocol.participants": 3}
    if protocol == "buffered":
        dispatch = {"kind": "constant", "in_flight": 4}
        changes = {"data.clients": 8, "protocol": {"kind": "buffered", "rounds": 8, "buffer": 2, "dispatch": dispatch}}
    chosen = scenario.override({**changes, "protocol.selection": selection})
    run, again, plain = simulate_seed(chosen, 0), simulate_seed(chosen, 0), simulate_seed(scenario.override(changes), 0)
    assert run.stopped == "all versions published"
    assert run.events.to_pandas().equals(again.events.to_pandas())
    assert not run.events.to_pandas().equals(plain.events.to_pandas())
    assert simulate_clock(chosen, 0).stopped == "all versions published"
