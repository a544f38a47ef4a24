"""What does the privacy ledger of a run cost: 100 clients, 100 versions, all adversaries?

    python benchmarks/ledger.py [--clients N] [--versions N]

A seed is simulated once, synchronous (every client is in every version: 10,000 updates) and buffered (ten updates in a
version, whose ages differ), with a lossy tap on both links and curious clients; then its ledger, and the way there
(`spending`), are drawn up from nothing.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

PROTOCOLS: dict[str, dict[str, Any]] = {
    "sync": {"kind": "sync"},
    "buffered": {"kind": "buffered", "buffer": 10, "dispatch": {"kind": "constant", "in_flight": 20}},
}
SCHEMES: dict[str, dict[str, Any]] = {
    "local_gaussian": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 1.0},
    "nbafl": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0},
    "dp_fedavg": {"kind": "dp_fedavg", "noise_multiplier": 1.0, "noise_at": "server"},
    "laplace": {"kind": "mechanisms", "client": {"kind": "laplace", "epsilon": 100}},
    "laplace, server": {"kind": "mechanisms", "server": {"kind": "laplace", "epsilon": 100}},
}


def main() -> None:
    """Print a row for each protocol and scheme."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--versions", type=int, default=100)
    asked = parser.parse_args()
    print(f"{'protocol':10}{'scheme':16}{'updates':>8}{'rows':>6}{'ledger s':>10}{'with spending s':>17}")
    for protocol, knobs in PROTOCOLS.items():
        for name, privacy in SCHEMES.items():
            scenario = Scenario.read(
                {
                    "data": {
                        "dataset": "mnist",
                        "clients": asked.clients,
                        "samples_per_client": 10,
                        "source": "embedded",
                        "test_samples": 50,
                    },
                    "model": {"kind": "mlp", "hidden": []},
                    "training": {"lr": 0.05, "batch_size": 10, "gradient_clip": 1.0},
                    "protocol": {**knobs, "rounds": asked.versions},
                    "world": {
                        "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5},
                        "tap": {"uplink": True, "downlink": True, "packet_loss": 0.05},
                    },
                    "privacy": {**privacy, "curious": 0.1},
                    "evaluation": {"train_every": 0, "test_every": 0},
                }
            )
            run = simulate_seed(scenario, 0)
            began = time.process_time()
            books = SeedLedger(run)
            rows = len(books.ledger)
            drawn_up = time.process_time() - began
            _ = books.spending
            both = time.process_time() - began
            print(f"{protocol:10}{name:16}{len(run.uploads):8}{rows:6}{drawn_up:10.2f}{both:17.2f}")


if __name__ == "__main__":
    main()
