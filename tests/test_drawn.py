"""What is drawn from the streams of seed 0, against a written list: equal seeds give equal runs over versions, too.

`python tests/test_drawn.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.data.concept import Relabelled, Restyled
from asyncfl.data.partition import Dirichlet, Iid, Quantity, Shards
from asyncfl.learning.noise import StandardLaplace, StandardNormal
from asyncfl.server.population import Population
from asyncfl.streams import Streams
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss, NoLoss

LIST = Path(__file__).with_name("drawn.json")
LABELS = np.arange(600) * 7 % 10


def rng(number: int = 0) -> np.random.Generator:
    return Streams(0).generator("availability", number=number)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _streams() -> Iterator[tuple[str, Any]]:
    for at in ({}, {"client": 0}, {"client": 5, "number": 3}):
        streams = Streams(7)
        yield f"a generator {at}", streams.generator("selection", **at).random(2)
        yield f"bits {at}", streams.bits("selection", **at).random_raw(2)
        drawn = torch.rand(2, generator=streams.torch_generator("selection", **at))
        yield f"torch {at}", drawn.double().numpy()
        order = streams.order("selection", **at)
        yield f"an order {at}", [list(order.proposals(1000))[:40], order.ranks(np.array([0, 3, 999]))]
    keyed = KeyedStream(Streams(0), "task_clock")
    yield (
        "keyed",
        [keyed.at(client, number, phase).random() for client, number, phase in ((0, 0, 0), (3, 1, 2), (3, 2, 2))],
    )
    for count in (1, 3, 11, 12):
        population = Population(12)
        population.add_all()
        for gone in (2, 7):
            population.remove(gone)
        order = Streams(0).order("selection", number=count)
        yield f"{count} of a population", [population.draw(count, order), sorted(population.idle.tolist())]
    population = Population(8)
    population.add_all()
    population.served[:] = [3, 1, 1, 0, 2, 1, 0, 5]
    yield "the least served", population.draw_least_served(4, Streams(0).order("selection"))


def _noise() -> Iterator[tuple[str, Any]]:
    for kind in (StandardNormal, StandardLaplace):
        for n in (1, 7, 70_001):
            noise = kind(Streams(0).bits("client_noise", client=n), n).draw()
            yield f"{kind.__name__} {n}", [noise[:3], noise[-2:], np.abs(noise).max(), noise.astype(np.float64).sum()]


def _world() -> Iterator[tuple[str, Any]]:
    kinds: list[Distribution] = [
        Fixed(value=2.0),
        Uniform(low=1.0, high=3.0),
        Exponential(mean=2.0, minimum=0.5),
        Lognormal(median=2.0, sigma=0.7),
        Pareto(minimum=1.0, alpha=2.5),
    ]
    for kind in kinds:
        drawn = [kind.draw(rng(), 3), kind.one(rng(1)), kind.length_biased(rng(2), 3), kind.residual(rng(3), 3)]
        yield f"{kind}", [*drawn, kind.expected()]
    losses: list[Loss] = [
        NoLoss(),
        IndependentLoss(probability=0.2),
        GilbertElliottLoss(good_to_bad=0.05, bad_to_good=0.3),
        GilbertElliottLoss(good_to_bad=0.3, bad_to_good=0.4, loss_in_good=0.1, loss_in_bad=0.7),
    ]
    for loss in losses:
        random, found = rng(4), []
        state = loss.start(random)
        for packets, idle in (
            (1, 0.0),
            (5, 2.5),
            (40, 0.0),
            (3, 100.0),
            (3000, 1.0),
            (0, 1.0),
            (200_000, float("inf")),
        ):
            lost, state = loss.step(state, packets, idle, random)
            found.append([lost, state])
        yield f"{loss}", [found, loss.mean_loss(), loss.lossless]


def _data() -> Iterator[tuple[str, Any]]:
    partitions = [
        Iid(),
        Shards(shards_per_client=2),
        Quantity(spread=0.8, min_samples=5),
        Quantity(distribution="power", spread=1.2, min_samples=3),
        Dirichlet(alpha=0.3),
        Dirichlet(alpha=0.05),
        Dirichlet(alpha=0.5, share_sizes="free", min_samples=4),
    ]
    for partition in partitions:
        shares = partition.assign(LABELS, 6, 80, rng(5))
        counted = [np.bincount(LABELS[share], minlength=10) for share in shares]
        yield f"{partition}", [counted, [share[:4] for share in shares], partition.spare]
    images, owners = np.arange(24, dtype=np.uint8).reshape(6, 2, 2), np.arange(6)
    yield "labels renamed", Relabelled(groups=3, classes=4).labels(np.arange(6), owners, 10, Streams(0))
    yield "images turned", Restyled(groups=3).images(images, owners)
    yield "images inverted", Restyled(groups=2, change="inverted").images(images, owners)


def _all() -> dict[str, Any]:
    return {name: _plain(value) for part in (_streams, _noise, _world, _data) for name, value in part()}


def _near(value: Any, expected: Any) -> bool:
    """Equal but for the last digits of logarithms and sums, which libraries round differently."""
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_near, value, expected))
    if isinstance(expected, float):
        return bool(value == pytest.approx(expected, rel=1e-5, abs=1e-3 if abs(expected) > 100 else 1e-6))
    return bool(value == expected)


def test_what_is_drawn_is_what_is_written_down() -> None:
    there, written = _all(), json.loads(LIST.read_text(encoding="utf-8"))
    assert list(there) == list(written)
    other = {name: (there[name], written[name]) for name in written if not _near(there[name], written[name])}
    assert other == {}, "if this is meant: python tests/test_drawn.py"


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in _all().items()]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
