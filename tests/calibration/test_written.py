"""What the formulas of fits make of made-up sightings - of messages, periods, turns, speeds - against a written list.

Worlds that are fitted to simulated runs are in `test_numbers.py`; here are what such runs seldom hold: messages that
were given up, clients that nobody saw, ties. `python tests/calibration/test_written.py` writes the list anew; read the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.calibration.losses import _binomial, _independent, fitted_loss
from asyncfl.calibration.messages import SeenMessage, links_of
from asyncfl.calibration.observations import Trainings
from asyncfl.calibration.presence import Sightings, _follow
from asyncfl.calibration.server import AT_ONCE, aggregates_alone, evaluated_s
from asyncfl.calibration.sharing import Concurrency, Machine, _log_densities
from asyncfl.calibration.speeds import Speeds, of_mean_one, speeds_of
from asyncfl.calibration.workers import _Turns
from asyncfl.trace.events import Kind
from asyncfl.world.distributions import Exponential, Fixed, Lognormal, Pareto, Uniform
from asyncfl.world.links import Link
from tests.calibration.by_hand import seen_run
from tests.written import compare, write

LIST = Path(__file__).with_name("written.json")
BEFORE = Link(mtu_bytes=300, retransmissions=2, retransmission_timeout_s=0.7)


def _messages(seed: int, sizes: tuple[int, ...], again: float, lost: float, jitter: float) -> list[SeenMessage]:
    random, made = np.random.default_rng(seed), []
    for number in range(24):
        client, size = number % 5, int(random.choice(sizes))
        s_per_byte, latency = 1e-5 * (client + 1), 0.02 * client
        all_sizes, began = [size], [0.0]
        while random.random() < again and len(began) < 4:
            began.append(began[-1] + all_sizes[-1] * s_per_byte + 0.5)
            packets = -(-size // BEFORE.mtu_bytes)
            all_sizes.append(-(-size * int(random.integers(1, packets + 1)) // packets))
        arrived = began[-1] + all_sizes[-1] * s_per_byte + latency + jitter * float(random.exponential())
        if client == 4 or random.random() < lost:
            arrived = math.nan
        made.append(SeenMessage(client, tuple(all_sizes), tuple(began), arrived))
    return made


def _links(messages: list[SeenMessage]) -> Any:
    found = links_of(6, messages, BEFORE)
    bandwidth = None if found.bandwidth is None else found.bandwidth.exact
    return [
        found.latency_s, found.bandwidth_bps, found.latency.exact, bandwidth, found.jitter.distribution.model_dump(),
        found.jitter.exact, found.loss.loss.model_dump(), [found.loss.packets, found.loss.lost],
        [found.retransmissions, found.timeout_s, found.mtu_bytes, found.messages, found.told_apart, list(found.unseen)],
    ]  # fmt: skip


def _lost(messages: list[SeenMessage]) -> Any:
    found = fitted_loss(messages, 300)
    return [found.loss.model_dump(), found.packets, found.lost, found.compared]


def _followed(seed: int) -> Any:
    """What is seen of eight clients, each with six moments of few values."""
    random, told = np.random.default_rng(seed), []
    for _ in range(8):
        seen = Sightings()
        moments = np.sort(random.choice([0.0, 1.0, 2.5, 4.0, 7.0], 6))
        whats = random.choice(["at it", "came", "went", "away"], 6, p=[0.4, 0.2, 0.25, 0.15])
        order = {"at it": 2, "came": 1, "went": 0, "away": 0}
        found = [
            (float(at), order[what], str(what), float(at) + (1.5 if what == "at it" else 0.0))
            for at, what in zip(moments, whats, strict=True)
        ]
        _follow(sorted(found), 9.0, seen)
        told.append([seen, seen.log_likelihood(0.3, 0.8)])
    return told


def _turns(seed: int) -> Any:
    random = np.random.default_rng(seed)
    came = np.round(random.uniform(0, 6, 9), 0)
    began = came + random.choice([0.0, 0.0, 1.0, 2.0, math.nan], 9)
    ended = np.where(np.isnan(began), came + 1, began + random.choice([0.5, 1.0, 3.0], 9))
    turns = _Turns(came, began, ended)
    return [turns.held_s(), *(turns.empty_s(places) for places in (1, 2, 3, 9))]


def _speeds(seed: int) -> Any:
    random = np.random.default_rng(seed)
    client = random.integers(0, 5, 14)
    work = random.choice([10.0, 40.0], 14)
    seconds = work * 0.01 * (client + 1) * (random.choice([1.0, 1.5], 14) if seed else 1.0)
    trainings = Trainings(client, work, seconds, random.random(14) < 0.7)
    return _found(speeds_of(6, trainings))


def _found(found: Speeds) -> Any:
    return [
        found.s_per_sample, list(found.unseen), found.trainings, found.jitter.distribution.model_dump(),
        found.jitter.exact, found.jitter.expected, found.population.exact,
    ]  # fmt: skip


def _machine(workers: int | None) -> Any:
    """Four tasks: one whole, one broken off, one at its deadline, one that never began; and their server."""
    events = []
    for task, (start, trained, detail, left) in enumerate(
        (
            (1.0, 3.0, "", None), (2.0, None, "", 5.0), (2.5, 6.0, "stopped", None), (None, None, "", None),
            (4.0, 4.0, "", 8.0),
        )
    ):  # fmt: skip
        own = {"task": task, "client": task % 2}
        events.append((0.5, Kind.DISPATCHED, own))
        if start is not None:
            events.append((start, Kind.TRAINING_STARTED, own))
        if trained is not None:
            events.append((trained, Kind.TRAINED, {**own, "detail": detail}))
        if left is not None:
            events.append((left, Kind.DROPPED_OUT, own))
    run = seen_run(*sorted(events, key=lambda one: one[0]), (10.0, Kind.STOPPED, {}))
    made = Machine.of(run, (np.array([3.5, 6.0]), np.array([4.0, 7.0])), np.array([4.0, 7.0]), workers)
    load = made.load(1.5, 0.75)
    return [
        made.others.at_s, made.others.at_work, made.client, made.asked, made.began_s, made.ended_s, load.at_s,
        load.at_work, load.rate(1.5), load.rate_before(np.array([3.0, 6.0]), 1.5), load.done(load.at_s, 1.5),
        load.reached(np.array([0.5, 4.0]), 1.5), made.load(2.0, 0.0) is made.others,
    ]  # fmt: skip


def _densities(seed: int) -> Any:
    random = np.random.default_rng(seed)
    client = random.integers(0, 4, 11)
    work = random.choice([1.0, 2.0, 2.5, 0.0], 11, p=[0.4, 0.3, 0.25, 0.05])
    return _log_densities(work, random.choice([0.5, 1.0], 11), client)


def _server(kept: float, every: int) -> Any:
    """Whether tasks begin while a version is made, where others are given `kept` seconds after one is published."""
    events: list[tuple[float, Kind, dict[str, Any]]] = []
    for version in range(5):
        at_s = 10.0 * version
        events.append((at_s, Kind.PUBLISHED, {"version": version}))
        for client in range(2):
            given = at_s + (kept if client else 0.0)
            events.append(
                (given, Kind.DISPATCHED, {"task": 2 * version + client, "client": client, "base_version": version})
            )
    run = seen_run(*sorted(events, key=lambda one: one[0]))
    scenario = SimpleNamespace(
        evaluation=SimpleNamespace(test_every=every),
        protocol=SimpleNamespace(rounds=4, dispatch=SimpleNamespace(level=lambda clients: clients)),
    )
    run = SimpleNamespace(
        **{name: getattr(run, name) for name in ("samples", "tasks", "column", "rows")}, scenario=scenario
    )
    ended = np.array([10.0, 20.0, 30.0, 40.0])
    return [evaluated_s(run), *(aggregates_alone(run, (ended - long, ended)) for long in (0.0, 4.0, 10.0))]


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for number, made in enumerate((
        ((900,), 0.0, 0.0, 0.0), ((900, 1200), 0.0, 0.1, 0.01), ((900,), 0.3, 0.1, 0.02), ((900,), 0.5, 0.0, 0.0),
        ((299, 300, 301, 600), 0.4, 0.3, 0.0), ((900,), 0.3, 1.0, 0.0),
    )):  # fmt: skip
        yield f"links {number}", lambda made=made, number=number: _links(_messages(number, *made))
        yield f"losses {number}", lambda made=made, number=number: _lost(_messages(number, *made))
    one = SeenMessage(0, (900,), (0.0,), 0.5)
    yield "links of nobody", lambda: _links([])
    yield "links of one message", lambda: _links([one])
    yield "links of one client among others", lambda: _links([
        one, one._replace(client=1), one._replace(client=1, sizes=(600,), arrived_s=0.4),
        one._replace(client=2, arrived_s=0.2),
    ])  # fmt: skip
    yield "independent", lambda: [_independent(100, 7, vain) for vain in ([], [1], [4, 4], [50])]
    yield "binomial", lambda: [_binomial(np.array(rows)) for rows in ([[4, 0, 3]], [[4, 1, 3], [2, 0, 9]], [[3, 3, 2]])]
    for seed in range(5):
        yield f"followed {seed}", partial(_followed, seed)
        yield f"turns {seed}", partial(_turns, seed)
        yield f"densities {seed}", partial(_densities, seed)
    for seed in range(3):
        yield f"speeds {seed}", partial(_speeds, seed)
    once = Trainings(np.array([0, 2]), np.array([10.0, 40.0]), np.array([0.1, 2.0]), np.array([True, True]))
    yield "speeds of clients that were seen once", lambda: _found(speeds_of(4, once))
    for workers in (None, 1, 2):
        yield f"machine of {workers}", partial(_machine, workers)
    load = Concurrency.of(np.array([2.0, 0.0, 1.0, 1.0, 4.0]), np.array([1.0, 1, 1, 1, -4]))
    yield "load", lambda: [load, load.rate(2.0), load.rate(0.5), load.done(np.array([-1.0, 0.5, 3.0, 9.0]), 2.0)]
    yield "of mean one", lambda: [
        of_mean_one(one).model_dump() for one in (
            Fixed(value=3.0), Uniform(low=1, high=4), Exponential(mean=4, minimum=1), Lognormal(median=2, sigma=0.5),
            Pareto(minimum=2, alpha=3), Pareto(minimum=2, alpha=1),
        )
    ]  # fmt: skip
    for kept in (0.0, 10 * AT_ONCE, 10 * AT_ONCE + 1e-6, 3.0, 7.0):
        for every in (0, 1, 3):
            yield f"server {kept} {every}", partial(_server, kept, every)


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_nothing_comes_to_something_else(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
