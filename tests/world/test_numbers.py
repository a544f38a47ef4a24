"""What worlds of all sorts draw, for clients, tasks and messages, against a written list.

`python tests/world/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.streams import Streams
from asyncfl.world import World
from asyncfl.world.distributions import Exponential, Fixed, Listed, Lognormal, Pareto, Uniform
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, NoLoss
from asyncfl.world.profiles import rows_of
from asyncfl.world.tap import held_probability
from asyncfl.world.transfer import send
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
LOGNORMAL = {"kind": "lognormal", "median": 2.0, "sigma": 0.5}
LINK: dict[str, Any] = {
    "latency_s": {"kind": "lognormal", "median": 0.05, "sigma": 0.3}, "bandwidth_bps": 1e5, "mtu_bytes": 300,
    "jitter_s": {"kind": "exponential", "mean": 0.02}, "loss": {"kind": "independent", "probability": 0.2},
    "retransmissions": 2, "retransmission_timeout_s": 0.05,
}  # fmt: skip
INSTANT = {"kind": "instant"}
BURSTS = {**LINK, "loss": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.3}, "mtu_bytes": 1500}
NIGHTS: dict[str, Any] = {
    "kind": "diurnal", "from_h": {"kind": "uniform", "low": 21, "high": 25}, "hours": LOGNORMAL, "starts_at_h": 20.5,
    "zones_h": [0, -5, 5.5], "shares": [1, 2, 1],
}  # fmt: skip
WORLDS: dict[str, dict[str, Any]] = {
    "usual": {},
    "lossy": {"uplink": LINK, "downlink": BURSTS, "tap": {"uplink": True, "packet_loss": 0.3}},
    "heard": {"uplink": LINK, "downlink": BURSTS, "tap": {"downlink": True, "scoring": True, "packet_loss": 0.0}},
    "given up": {"dropout": 0.4, "dropout_per_s": 0.1, "evaluation_cost": 0.3, "workers": 2},
    "jitter": {"device": {"kind": "pareto", "minimum_s_per_sample": 0.01, "alpha": 2, "jitter": LOGNORMAL}},
    "jitter of mean 2": {"device": {"kind": "fixed", "s_per_sample": 0.01, "jitter": 2.0}},
    "uniform": {"device": {"kind": "uniform", "low_s_per_sample": 0.01, "high_s_per_sample": 0.03}},
    "exponential": {"device": {"kind": "exponential", "mean_s_per_sample": 0.01, "minimum_s_per_sample": 0.004}},
    "listed": {"device": {"kind": "listed", "s_per_sample": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}},
    "alternating": {"availability": {"kind": "alternating", "on_s": LOGNORMAL, "off_s": 3}},
    "alternating, unequal": {
        "availability": {
            "kind": "alternating", "on_s": LOGNORMAL, "off_s": 3,
            "varies": {"sigma": 0.4, "along": "samples", "correlation": -0.8},
        },
        "device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5},
    },
    "nights": {"availability": NIGHTS},
    "nights that vary": {"availability": {**NIGHTS, "shares": None, "varies": {"sigma": 0.5}}},
    "learnt at once": {"availability": {"kind": "alternating", "on_s": 2, "off_s": 3}, "failure_detection": INSTANT},
    "learnt by lease": {
        "availability": {"kind": "alternating", "on_s": 2, "off_s": 3},
        "failure_detection": {"kind": "lease", "seconds": 1.5},
    },
}  # fmt: skip


def _drawn(world: World) -> Any:
    state = world.start(6, Streams(7), np.arange(10, 16))
    told: list[Any] = [state.s_per_sample, world.availability.changes_per_s, list(map(str, world.hopeless()))]
    for client, turn in ((0, 0), (5, 0), (3, 2), (3, 2**31 - 1)):
        for draws in (state.task(client, turn), state.scoring(client, turn)):
            up, down = draws.upload(2000), draws.download(1)
            told += [list(up), list(down), [up.attempts_by(s) for s in (0.0, 0.1, 1.0)], up.overheard]
            told += [list(up.cut(up.duration_s / 2)), [up.sent_by(up.duration_s * k / 5) for k in range(7)]]
            told += [
                draws.compute_s(20, 2),
                draws.compute_s(0),
                draws.evaluate_s(10, 3),
                draws.dropout(),
                draws.gives_up_s(),
            ]
    told.append(state.all_online(0.0))
    change = 0.0
    for _ in range(4):
        told.append([state.online(1, change), change])
        if math.isinf(change := state.next_change(1, change)):
            break
    gone = world.start(6, Streams(7), np.arange(10, 16)).next_change(2, 0.0)
    return told if math.isinf(gone) else [*told, state.learnt_s(2, gone)]


def _of(distribution: Any) -> Any:
    random = np.random.default_rng(2)
    return [
        distribution.draw(random, 5), distribution.expected(), distribution.length_biased(random, 5),
        distribution.one(random), distribution.residual(random, 5), distribution.is_constant,
    ]  # fmt: skip


def _losses(loss: Any) -> Any:
    random = np.random.default_rng(2)
    state = loss.start(random)
    told: list[Any] = [loss.lossless, loss.mean_loss()]
    for packets, idle in ((1, 0.0), (40, 0.5), (3, math.inf), (1000, 2.0), (0, 1.0)):
        lost, state = loss.step(state, packets, idle, random)
        told += [lost, bool(state) if state is not None else None]
    return told


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, fields in WORLDS.items():
        yield name, lambda fields=fields: _drawn(World.model_validate(fields))
    for distribution in (
        Fixed(value=2.0), Uniform(low=1.5, high=3.5), Exponential(mean=2.2, minimum=0.6),
        Lognormal(median=2.0, sigma=0.5),
        Pareto(minimum=1.3, alpha=3.5), Listed(values=(1.0, 2.0, 5.0)), Exponential(mean=2.0),
    ):  # fmt: skip
        yield f"distribution {distribution!r}", partial(_of, distribution)
    for loss in (
        NoLoss(), IndependentLoss(probability=0.2), IndependentLoss(probability=0.0), IndependentLoss(probability=1.0),
        GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.3), GilbertElliottLoss(good_to_bad=1.0, bad_to_good=1.0),
        GilbertElliottLoss(good_to_bad=0.2, bad_to_good=0.5, loss_in_good=0.05, loss_in_bad=0.7),
    ):  # fmt: skip
        yield f"loss {loss!r}", partial(_losses, loss)
    for order in ("drawn", "in_order"):
        yield f"rows {order}", lambda order=order: [rows_of(n, 4, order, np.random.default_rng(1)) for n in (2, 4, 9)]
    yield (
        "held by the tap",
        lambda: [held_probability(p, q) for p in ((1,), (7,), (7, 2), (7, 2, 1)) for q in (0.0, 0.3, 1.0)],
    )
    for coin in (0.0, 0.5, 0.99):
        yield f"sent with coin {coin}", lambda coin=coin: [
            list(send(
                size, latency_s=latency, bandwidth_bps=bandwidth, mtu_bytes=100, loss=IndependentLoss(probability=0.4),
                retransmissions=again, retransmission_timeout_s=0.2, back_s=0.15, tap_packet_loss=0.2, tap_coin=coin,
                rng=np.random.default_rng(size),
            ))
            for size in (1, 99, 100, 101, 950) for latency in (0.0, 0.1)
            for bandwidth in (1e3, math.inf) for again in (0, 3)
        ]  # fmt: skip


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
