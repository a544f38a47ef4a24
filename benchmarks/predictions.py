"""How well does a world that was fitted to a run predict its federation, and changes to it?

    python benchmarks/predictions.py --first 100 --worlds 6

Worlds of several kinds are drawn at random, simulated, and fitted to the events of one seed: the fit is given a
scenario without the world. Then the same protocol and a changed one are simulated in both worlds, with other seeds. A
line per kind says by how much the time between versions is wrong: the quotient predicted / true, least, median and
largest; the same for the staleness; and what share of arrivals comes at other hours of the day.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from asyncfl.extras.calibration import calibrate
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.protocol.events import Kind
from asyncfl.results.run_tables import rounds_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock

CLIENTS, SEEDS = 24, 3
BASE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": CLIENTS, "samples_per_client": 50, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"batch_size": 50, "epochs": 2},
}
KINDS = ("plain", "narrow uplink", "narrow both ways", "one night", "time zones", "dropout", "dropout per second")


def protocol(rounds: int, buffer: int, in_flight: int) -> dict[str, Any]:
    """FedBuff with a constant number of tasks in flight."""
    dispatch = {"kind": "constant", "in_flight": in_flight}
    return {"kind": "fedbuff", "rounds": rounds, "buffer": buffer, "dispatch": dispatch}


def world_of(kind: str, number: int) -> tuple[Scenario, Scenario]:
    """A scenario in a random world of a kind, and the same federation with another protocol."""
    rng = np.random.default_rng([number, KINDS.index(kind)])
    night = kind in ("one night", "time zones")
    # A night has room for some hundred trainings.
    speed = rng.lognormal(np.log(3.0 if night else 0.01), 0.5, CLIENTS)
    world: dict[str, Any] = {
        "device": {
            "kind": "listed",
            "s_per_sample": speed.tolist(),
            "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.1},
        },
        "downlink": {"latency_s": 0.05},
        "uplink": {"latency_s": rng.uniform(0.02, 0.2, CLIENTS).tolist(), "jitter_s": 0.0},
    }
    bits = 8 * 4 * Scenario.read({**BASE, "protocol": protocol(1, 1, 1)}).n_parameters
    if kind.startswith("narrow"):
        # Of the order of what the clients would send.
        world["uplink"]["server_bandwidth_bps"] = float(rng.uniform(0.3, 1.2)) * 8 * bits
    if kind == "narrow both ways":
        world["downlink"]["server_bandwidth_bps"] = float(rng.uniform(0.4, 1.5)) * 8 * bits
        world["uplink"]["bandwidth_bps"] = (rng.lognormal(0, 0.5, CLIENTS) * 2 * bits).tolist()
    if night:
        begins, lasts = float(rng.uniform(18, 23)), float(rng.uniform(3, 8))
        zones = (
            (0.0,) if kind == "one night" else tuple(rng.choice([0.0, 3.0, 6.0, 9.0, -5.0, -8.0], 3, False).tolist())
        )
        world["availability"] = {
            "kind": "diurnal",
            "from_h": {"kind": "uniform", "low": begins, "high": begins + float(rng.uniform(0.5, 4))},
            "hours": {"kind": "uniform", "low": lasts, "high": lasts + float(rng.uniform(0.5, 5))},
            "zones_h": list(zones),
        }
    if kind == "dropout":
        world["dropout"] = float(rng.uniform(0.05, 0.4))
    if kind == "dropout per second":
        world["dropout_per_s"] = float(rng.uniform(0.1, 0.8))
        world["dropout"] = float(rng.choice([0.0, 0.1]))
    rounds = {"one night": 400, "time zones": 1500}.get(kind, 150)
    in_flight = int(rng.integers(8, 16))
    scenario = Scenario.read({**BASE, "protocol": protocol(rounds, 5, in_flight), "world": world})
    fewer, more = rng.integers(2, 5), rng.integers(18, 22)
    changed = protocol(rounds, int(rng.integers(3, 9)), int(rng.choice([fewer, more])))
    return scenario, scenario.override({"protocol": changed})


def measured(scenario: Scenario) -> tuple[float, float, np.ndarray[Any, Any]]:
    """Mean seconds between versions, mean staleness, and share of arrivals by hour of the day, over several seeds."""
    ends, stale, hours = [], [], np.zeros(24)
    for seed in range(1, SEEDS + 1):
        run = simulate_clock(scenario, seed)
        rounds = rounds_table(run)
        ends.append(rounds["time_s"][-1].as_py() / (len(rounds) - 1))
        stale.append(np.nanmean(rounds["staleness_mean"].to_numpy()))
        arrived = run.events["time_s"].to_numpy()[np.array(run.events["kind"].to_pylist()) == Kind.UPLOADED]
        hours += np.bincount((arrived // 3600 % 24).astype(int), minlength=24)
    return float(np.mean(ends)), float(np.mean(stale)), hours / hours.sum()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--worlds", type=int, default=3, help="worlds of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append")
    chosen = parser.parse_args()
    print(f"{'kind':20} {'same protocol':20} {'changed':20} {'staleness':20} {'hours apart':20}")
    for kind in chosen.kind or KINDS:
        found = []
        for number in range(chosen.first, chosen.first + chosen.worlds):
            scenario, changed = world_of(kind, number)
            run = simulate_clock(scenario, 0)
            blank = scenario.override({"world": {}})
            world = (
                calibrate([ObservedRun.of(kind, blank, run.sizes, run.events, run.tasks)])
                .world()
                .model_dump(mode="json")
            )
            (was, staleness, hours), (is_, stale, at) = (
                measured(scenario),
                measured(scenario.override({"world": world})),
            )
            other = measured(changed.override({"world": world}))[0] / measured(changed)[0]
            found.append((is_ / was, other, stale / staleness, np.abs(hours - at).sum() / 2))
        columns = [f"{min(one):.2f} {np.median(one):.2f} {max(one):.2f}" for one in zip(*found, strict=True)]
        print(f"{kind:20} " + " ".join(f"{one:20}" for one in columns), flush=True)


if __name__ == "__main__":
    main()
