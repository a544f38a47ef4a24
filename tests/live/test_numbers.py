"""What small live federations come to on virtual time, where all goes well and where it does not, in a written list.

`python tests/live/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncfl.federation import clients_table, rounds_table
from asyncfl.federation.prepare import Federation
from asyncfl.federation.resolve import resolve
from asyncfl.federation.seed_run import SeedRun
from asyncfl.live.host import Host
from asyncfl.live.run import Round, hold, local_clients
from asyncfl.live.terms import Terms
from asyncfl.live.transport import Connection, Memory
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop
from tests.live.conftest import SMALL
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("numbers.json")
SLOW = {"device": {"kind": "lognormal", "median_s_per_sample": 0.05, "sigma": 0.5}}
LOSS = {"kind": "independent", "probability": 0.1}
LOSSY: dict[str, Any] = {
    **SLOW,
    "uplink": {"latency_s": 0.1, "bandwidth_bps": 1e6, "mtu_bytes": 500, "loss": LOSS},
    "downlink": {"latency_s": 0.05, "bandwidth_bps": 2e6},
    "tap": {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.1},
    "aggregate_s": 0.2,
}
ABSENT = {**LOSSY, "availability": {"kind": "alternating", "on_s": 3, "off_s": 2}, "dropout": 0.1}
LEASE = {**ABSENT, "failure_detection": {"kind": "lease", "seconds": 0.7}}
BUFFERED = {"kind": "fedbuff", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
ASYNC = {"kind": "fedasync", "rounds": 8, "in_flight": 4}
NBAFL = {"kind": "nbafl", "epsilon": 50, "clip_norm": 1.0}
SAFL = {"detector": {"kind": "safl"}}
CASES: dict[str, dict[str, Any]] = {
    "slow": {"world": SLOW},
    "lossy": {"world": LOSSY, "protocol": BUFFERED},
    "absences": {"world": ABSENT, "protocol": BUFFERED},
    "a lease": {"world": LEASE, "protocol": BUFFERED},
    "a lease, one by one": {"world": LEASE, "protocol": ASYNC, "privacy": NBAFL},
    "scores": {"world": LOSSY, "protocol": ASYNC, "defence": SAFL},
    "scores after absences": {"world": ABSENT, "protocol": ASYNC, "defence": SAFL},
    "scores in turn": {"world": LEASE, "protocol": {**ASYNC, "scoring": "serial"}, "defence": SAFL},
    "attackers": {
        "world": SLOW, "protocol": BUFFERED, "threats": {"attackers": 2, "attack": {"kind": "sign_flip"}},
        "defence": {"detector": {"kind": "kardam"}, "strikes": {"threshold": 1}},
    },
    "not finite": {"world": SLOW, "protocol": BUFFERED, "threats": {"attackers": 1, "attack": {"kind": "non_finite"}}},
    "wrong length": {
        "world": SLOW, "protocol": BUFFERED, "threats": {"attackers": 1, "attack": {"kind": "wrong_length"}},
    },
    "noise": {"world": SLOW, "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0, "clip_norm": 0.5}},
    "a deadline": {
        "world": LEASE,
        "protocol": {"kind": "sync", "rounds": 4, "open": {"kind": "deadline", "seconds": 1.0, "at_least": 2}},
    },
    "a time limit": {"world": SLOW, "protocol": {**BUFFERED, "time_limit_s": 2.5}},
    "a budget": {
        "world": SLOW, "protocol": {**BUFFERED, "rounds": 12},
        "privacy": {"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5, "stop_at": {"epsilon": 6.0}},
    },
}  # fmt: skip


def _held(changes: dict[str, Any], cut_at_s: float | None = None) -> Any:
    """A federation; with `cut_at_s` the connections of its first two clients end then."""
    scenario = Scenario.read({**SMALL, **changes})
    terms = Terms(shape=True)
    tokens = {str(client): f"token {client}" for client in range(scenario.data.clients)}

    def around(federation: Federation) -> Round:
        async def everybody(host: Host) -> None:
            memory = Memory(host.serve)
            opened: list[Connection] = []

            async def connect() -> Connection:
                opened.append(await memory.connect())
                return opened[-1]

            with ThreadPoolExecutor(1) as executor:
                clients = local_clients(federation, terms, tokens, connect, executor, federation.resolved.streams)
                running = [asyncio.ensure_future(client.run()) for client in clients]
                if cut_at_s is not None:
                    await asyncio.sleep(cut_at_s)
                    for one in opened[:2]:
                        await one.close()
                await asyncio.gather(*running)
            await memory.close()

        return everybody

    async def main() -> SeedRun:
        return await hold(resolve(scenario, 0, SimulatedRuns()), terms, tokens, around, secret=1)

    run = virtual_loop.run(main)
    return [sums(run.events), sums(rounds_table(run)), sums(clients_table(run)), run.fates, run.stopped, run.notes]


CALLS: dict[str, Callable[[], Any]] = {
    **{name: partial(_held, changes) for name, changes in CASES.items()},
    **{f"{name}, cut": partial(_held, CASES[name], 1.0) for name in ("slow", "lossy", "a lease", "scores")},
}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
