"""What is fitted to the events of small runs in worlds of all sorts, and how it is told, against a written list.

`python tests/calibration/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.calibration import calibrate
from asyncfl.calibration.families import fitted
from asyncfl.calibration.losses import lost_in_bursts
from asyncfl.calibration.observations import SeenRun
from asyncfl.calibration.words import amount, table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 12, "samples_per_client": 50, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"batch_size": 50, "epochs": 2},
    "protocol": {
        "kind": "fedbuff", "rounds": 25, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 8},
    },
    "world": {"device": {"kind": "fixed", "s_per_sample": 0.01}, "aggregate_s": 0.3},
}  # fmt: skip
EXPONENTIAL = {"kind": "exponential", "mean": 8}
LOSSY: dict[str, Any] = {
    "latency_s": {"kind": "lognormal", "median": 0.05, "sigma": 0.3}, "mtu_bytes": 300,
    "bandwidth_bps": {"kind": "uniform", "low": 1e5, "high": 4e5}, "jitter_s": {"kind": "exponential", "mean": 0.02},
    "loss": {"kind": "independent", "probability": 0.03}, "retransmission_timeout_s": 0.5,
}  # fmt: skip
BURSTS = {"kind": "gilbert_elliott", "good_to_bad": 0.02, "bad_to_good": 0.3}
LOGNORMAL = {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5}
WORLDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lossy": {"world.uplink": LOSSY, "world.device": LOGNORMAL},
    "bursts": {"world.downlink": {**LOSSY, "loss": BURSTS, "retransmissions": 1}, "protocol.rounds": 60},
    "in vain": {"world.uplink": {**LOSSY, "loss": {"kind": "independent", "probability": 0.2}, "retransmissions": 1}},
    "absences": {
        "world.availability": {"kind": "alternating", "on_s": EXPONENTIAL, "off_s": EXPONENTIAL},
        "world.dropout": 0.1, "protocol.rounds": 40,
    },
    "long absences": {"world.availability": {"kind": "alternating", "on_s": 20, "off_s": 5}, "protocol.rounds": 40},
    "given up by the second": {"world.dropout_per_s": 0.1, "world.aggregate_s": 0.0},
    "sharing": {"world.workers": 2, "world.turnaround_s": 0.1, "world.device": LOGNORMAL},
    "uniform": {"world.device": {"kind": "uniform", "low_s_per_sample": 0.01, "high_s_per_sample": 0.03}},
    "exponential": {"world.device": {"kind": "exponential", "mean_s_per_sample": 0.01}},
    "pareto": {"world.device": {
        "kind": "pareto", "minimum_s_per_sample": 0.01, "alpha": 1.5,
        "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.2},
    }},
    "some only": {"protocol": {"kind": "sync", "rounds": 3, "participants": 4}},
    "quantities": {"data.partition": {"kind": "quantity"}, "protocol.time_limit_s": 12},
}  # fmt: skip


def _seen(changes: dict[str, Any], seed: int = 0) -> SeenRun:
    scenario = Scenario.read(BASE).override(changes)
    run = simulate_clock(scenario, seed)
    return SeenRun.of("run", scenario, run.sizes, run.events)


def _told(*changes: dict[str, Any]) -> Any:
    found = calibrate([_seen(one, seed) for seed, one in enumerate(changes)])
    own = found.world().model_dump(mode="json", exclude_defaults=True)
    drawn = found.world(population=True).model_dump(mode="json", exclude_defaults=True)
    fits = {part.name: [part.shape.gap, part.shape.compared, part.sample] for part in found.parts()}
    sightings = found.presence.sightings
    ways = [[one.messages, one.told_apart, one.loss.packets, one.loss.lost, one.loss.compared, list(one.unseen)]
            for one in (found.downlink, found.uplink)]  # fmt: skip
    return [own, drawn, fits, ways, found.notes(), table(found), len(found.places.waits_s), sightings]


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, changes in WORLDS.items():
        yield name, partial(_told, changes)
    yield "two sizes", partial(_told, {}, {"model.hidden": [9]})
    yield "two sizes on a lossy way", partial(_told, WORLDS["lossy"], {**WORLDS["lossy"], "model.hidden": [9]})
    random = np.random.default_rng(0)
    samples = {
        "normal": np.exp(random.normal(0, 1, 30)), "even": random.uniform(2, 3, 30),
        "late": 5 + random.exponential(1, 30),
        "heavy": random.pareto(1.1, 30) + 1, "seven": np.arange(7.0), "eight": np.arange(8.0), "one": np.array([3.0]),
        "nearly the same": 1 + 1e-4 * np.linspace(0, 1, 20), "not the same": 1 + 1.1e-4 * np.linspace(0, 1, 20),
        "tiny": 1e-9 * np.linspace(0, 1, 20), "with 0": np.concatenate([[0.0], random.exponential(1, 20)]),
    }  # fmt: skip
    for name, sample in samples.items():
        for periods in (False, True):
            for cut_off in (None, np.array([0.5, 2.5, 4.0])):
                more = "" if cut_off is None else ", cut off"
                yield (
                    f"fitted {name}{more}{', periods' if periods else ''}",
                    partial(
                        lambda sample, cut_off, periods: _fit(fitted(sample, cut_off, periods=periods)),
                        sample,
                        cut_off,
                        periods,
                    ),
                )
    yield "bursts of packets", lambda: [lost_in_bursts(n, 0.1, 0.4) for n in (1, 2, 7)]
    yield "amounts", lambda: [amount(v, u) for v in (0.0, 0.0123, 5.0, 2.5e6, math.inf) for u in ("s", "bps", "")]


def _fit(shape: Any) -> Any:
    return [
        shape.distribution.model_dump(),
        shape.gap,
        shape.log_likelihood,
        shape.compared,
        shape.shares[:5],
        shape.expected[:5],
    ]


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-3)


if __name__ == "__main__":
    write(LIST, CALLS)
