"""Selection of clients: idle ones, by random draws, by reported losses and durations, by a user's own class."""

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.errors import ComponentError
from asyncfl.base.streams import RandomOrder, Streams
from asyncfl.protocol.population import Population
from asyncfl.protocol.selection import BySamples, InformedSelection, Oort, PowerOfChoice, Selection
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed


def everybody(clients: int) -> Population:
    population = Population(clients)
    population.add_all()
    return population


def order(number: int = 0, seed: int = 0) -> RandomOrder:
    return Streams(seed).order("selection", number=number)


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


def test_all_of_many_clients_are_served_once_before_any_is_served_again() -> None:
    population, seen = everybody(5000), list[int]()
    for number in range(12_000):
        (client,) = population.draw_least_served(1, order(number))
        population.served[client] += 1
        population.add(client)
        seen.append(client)
        assert population.served.max() - 1 <= number // 5000
    assert population.served.min() == 2
    assert abs(np.corrcoef(seen[:5000], np.arange(5000))[0, 1]) < 0.06, "the order is random"
    assert seen[:5000] != seen[5000:10_000]


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
    population = everybody(6)
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
    population = everybody(6)
    population.remove(1)
    with pytest.raises(ComponentError, match=said):
        answer.draw(population, 2, order())
    assert population.idle.tolist() == [0, 2, 3, 4, 5]


def measured(samples: list[int], losses: list[float], durations_s: list[float] | None = None) -> Population:
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
    population = measured([5, 5, 5], [0.3, 0.2, 0.1])
    picked = [drawn(PowerOfChoice(candidates=2), population, 1, number)[0] for number in range(3000)]
    np.testing.assert_allclose(np.bincount(picked, minlength=3) / 3000, [2 / 3, 1 / 3, 0], atol=0.03)


def test_utility_worked_out_by_hand() -> None:
    population = measured([10, 10, 20], [1.0, 2.0, 1.0], [4.0, 8.0, 2.0])
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


@pytest.mark.parametrize("loss", [1e308, 3e38, math.inf])
def test_no_reported_loss_makes_utilities_infinite(loss: float) -> None:
    population = measured([2**53, 10, 10, 10], [loss, 1.0, 2.0, 0.5])
    assert np.isfinite(Oort(clip_quantile=1.0).utility(np.arange(4), population.statistics)).all()
    assert len(drawn(Oort(exploration=0.0, least_exploration=0.0), population, 2)) == 2


def test_exploration_falls_with_the_versions_to_its_least() -> None:
    population = measured([1] * 100, [1.0] * 50 + [math.nan] * 50)
    oort = Oort(exploration=0.8, decay=0.5, least_exploration=0.1)
    for version, explored in ((0, 16), (1, 8), (2, 4), (9, 2)):
        population.statistics.version = version
        assert sum(client >= 50 for client in drawn(oort, population, 20)) == explored
    population.statistics.losses[:] = math.nan
    assert len(set(drawn(oort, population, 20))) == 20


def test_a_client_is_drawn_in_proportion_to_its_samples() -> None:
    first = np.zeros(3)
    for turn in range(3000):
        first[BySamples().draw(measured([10, 30, 60], [1.0] * 3), 1, Streams(5).order("selection", number=turn))] += 1
    assert first / 3000 == pytest.approx([0.1, 0.3, 0.6], abs=0.03)


values = st.floats(0, 10) | st.just(math.nan)


@given(
    clients=st.lists(st.tuples(st.integers(1, 50), values, values), min_size=1, max_size=12),
    count=st.integers(0, 15),
    away=st.sets(st.integers(0, 11)),
    version=st.integers(0, 100),
    selection=st.sampled_from(
        [BySamples(), PowerOfChoice(candidates=3), PowerOfChoice(candidates=0.5), Oort(), Oort(cutoff=0.0)]
    ),
)
def test_so_many_different_idle_clients_are_asked(
    clients: list[tuple[int, float, float]], count: int, away: set[int], version: int, selection: InformedSelection
) -> None:
    samples, losses, durations_s = (list(column) for column in zip(*clients, strict=True))
    population = measured(samples, losses, durations_s)
    population.statistics.version = version
    for client in away:
        if client < len(clients):
            population.remove(client)
    idle = set(population.idle.tolist())
    found = selection.draw(population, count, Streams(1).order("selection"))
    assert len(found) == len(set(found)) == min(count, len(idle))
    assert set(found) <= idle
    assert set(population.idle.tolist()) == idle - set(found)


@pytest.mark.parametrize(
    "selection", [{"kind": "by_samples"}, {"kind": "power_of_choice", "candidates": 0.9}, {"kind": "oort"}]
)
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
