"""What the server's small decisions come to on grids of what they depend on, against a written list.

`python tests/server/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.defences import Kardam, Strikes
from asyncfl.messages import Fate
from asyncfl.server import Buffered, FedAsync, FedBuff, Protocol, ServerPlan, Sync
from asyncfl.server.application import partial_weights, weights
from asyncfl.server.dispatch import CohortDispatch, ConstantDispatch, ContinuousDispatch
from asyncfl.server.heard import Heard
from asyncfl.server.informed_selection import Oort, PowerOfChoice
from asyncfl.server.opening import Filling, OpenAll, OpenCount, OpenDeadline, OpenQuorum
from asyncfl.server.patience import Patience, Rejections
from asyncfl.server.population import Population
from asyncfl.server.selection import FairSelection, Selection, UniformSelection
from asyncfl.server.staleness import (
    ConstantStaleness,
    ExponentialStaleness,
    HingeStaleness,
    PolynomialStaleness,
)
from asyncfl.streams import Streams
from tests.server.test_replay import plan, record
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
DISPATCHES = (
    CohortDispatch(), CohortDispatch(participants=3, over_selection=1.34), CohortDispatch(participants=0.3),
    CohortDispatch(participants=0.07, over_selection=2.0), ConstantDispatch(in_flight=3),
    ConstantDispatch(in_flight=0.25), ContinuousDispatch(),
)  # fmt: skip
OPENINGS = (
    OpenAll(), OpenCount(updates=3), OpenQuorum(share=0.5), OpenQuorum(share=0.07), OpenQuorum(share=1.0),
    OpenDeadline(seconds=2.0), OpenDeadline(seconds=2.0, at_least=3),
)  # fmt: skip
STALENESS = (
    ConstantStaleness(), PolynomialStaleness(), PolynomialStaleness(exponent=1.5, offset=0), HingeStaleness(),
    HingeStaleness(slope=0.5, grace=0), ExponentialStaleness(), PolynomialStaleness(exponent=0.0),
)  # fmt: skip
PROTOCOLS: dict[str, Protocol] = {
    "sync": Sync(rounds=4, participants=4, over_selection=1.5),
    "sync, carried": Sync(rounds=4, participants=5, late="carry", open=OpenQuorum(share=0.6)),
    "buffered": Buffered(rounds=5, buffer=3, dispatch=ConstantDispatch(in_flight=5), max_staleness=1),
    "cohorts": Buffered(rounds=4, buffer=4, dispatch=CohortDispatch(participants=5), late="drop"),
    "fedbuff": FedBuff(rounds=5, buffer=2, dispatch=ContinuousDispatch(), staleness=HingeStaleness()),
    "fedasync": FedAsync(rounds=8, in_flight=3),
    "fair": Buffered(rounds=5, buffer=3, dispatch=ConstantDispatch(in_flight=4), selection=FairSelection()),
}


def _faults(one: Any, number: int) -> list[str]:
    return [str(fault) for fault in one.faults(number)]


def _drawn(selection: Selection) -> Any:
    told: list[Any] = []
    for clients in (1, 2, 7, 40, 300):
        population = Population(clients, np.arange(1, clients + 1))
        population.add_all()
        population.heard.losses[::2] = np.linspace(0.1, 2.0, len(population.heard.losses[::2]))
        population.heard.durations_s[:] = 1.0 + np.arange(clients) % 5
        population.heard.versions[:] = 1 + np.arange(clients) % 3
        population.heard.version = 4
        for turn, count in enumerate((1, 3, 0, 5, 200)):
            drawn = selection.draw(population, count, Streams(2).order("selection", number=turn))
            population.served[drawn] += 1
            told.append([drawn[:12], len(drawn), len(population), population.idle[:5].tolist()])
            for client in drawn[::2]:
                population.add(client)
        population.ban(0)
        if clients > 1:
            population.retire(1)
        population.add_all()
        told.append([sorted(population.left), population.why_nobody, len(population), population.is_idle(0)])
    return told


def _heard() -> Any:
    heard = Heard(np.array([10, 20, 30]))
    heard.arrived(2, 7.5)
    heard.version = 4
    heard.collected(np.array([0, 2]), np.array([0.5, 1.5]))
    return [Oort(preferred_s=2.0).utility(np.array([0, 2]), heard), heard.losses, heard.versions, heard.durations_s]


def _waited() -> Any:
    told: list[Any] = []
    for clients in (1, 999, 1001):
        patience = Patience(clients)
        told.append(patience.limit)
        for number in range(patience.limit):
            assert patience.why_stop is None
            patience.ended(Fate.LOST_UP if number % 3 else Fate.DROPPED_OUT)
        told.append(patience.why_stop)
        patience.arrived()
        told.append(patience.why_stop)
    for clients, senders in ((30, 1), (3, 3), (3, 2), (25, 24)):
        rejections = Rejections(clients)
        for number in range(31):
            told.append(rejections.why_stop({clients - 1}))
            rejections.rejected(number % senders, finite=number % 2 == 0)
        rejections.sound()
        told.append(rejections.why_stop(set()))
    return told


def _recorded(protocol: Protocol, guarded: bool) -> Any:
    known = plan(4, detector=Kardam(), strikes=Strikes(threshold=2)) if guarded else plan(4)
    recording = record(ServerPlan(protocol, known.samples, known.initial, Streams(3), defence=known.defence), seed=5)
    answers = [answer for line in recording.lines for answer in json.loads(line)["answers"]]
    told: list[Any] = [dict(sorted(Counter(answer["type"] for answer in answers).items()))]
    told.append([[one["task"], one["client"], one["version"]] for one in answers if one["type"] == "Dispatch"])
    told.append([[one["task"], one["fate"], one["staleness"]] for one in answers if one["type"] == "Settle"])
    told.append([one["weight"] for one in answers if one["type"] == "Settle"])
    told.append([one["reason"] for one in answers if one["type"] == "Stop"])
    return told


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    clients = (1, 2, 3, 7, 10, 14, 100)
    for one in DISPATCHES:
        yield (
            f"dispatch {one!r}",
            lambda one=one: [
                [one.in_cohorts, one.at_publish(n), one.wanted(n), one.level(n), _faults(one, n)] for n in clients
            ],
        )
    for two in OPENINGS:
        fillings = [
            Filling(held, coming, cohort, wanted, late)
            for held in (0, 1, 3, 7) for coming in (0, 2) for cohort, wanted in ((7, 7), (7, 3), (2, 3), (100, 100))
            for late in (False, True)
        ]  # fmt: skip
        yield (
            f"opening {two!r}",
            lambda one=two, fillings=fillings: (
                [[one.target(filling), one.is_open(filling)] for filling in fillings]
                + [one.whole_cohort, one.updates, one.seconds, _faults(one, 2), _faults(one, 3)]
            ),
        )
    for three in STALENESS:
        yield f"staleness {three!r}", lambda one=three: [one.weight(np.arange(8)), one.is_constant]
    samples, work = np.array([10, 20, 30]), np.array([0.25, 1.0, 0.5])
    yield "weights", lambda: [
        [weights(samples, np.array([1.0, 0.5, age]), by) for by in ("buffer", "weight_sum") for age in (0, 1)],
        [weights(samples, np.zeros(3), divisor) for divisor in ("buffer", "weight_sum")],
        partial_weights(np.array([0.2, 0.3, 0.5]), samples, work),
        [Buffered(rounds=1, partial_work=one, weighting=by).factors(samples, np.array([0, 1, 3]), some)
         for one in ("whole", "work", "normalised") for by in ("samples", "uniform") for some in (work, None)],
    ]  # fmt: skip
    yield "waited in vain", _waited
    yield "heard", _heard
    for chosen in (UniformSelection(), FairSelection(), PowerOfChoice(candidates=4), Oort()):
        yield f"drawn by {chosen!r}", partial(_drawn, chosen)
    for name, protocol in PROTOCOLS.items():
        yield (
            f"faults of {name}",
            lambda one=protocol: [[_faults(one, n), one.updates_per_version(n)] for n in (2, 4, 9)],
        )
        for guarded in (False, True):
            yield f"{name}{', guarded' if guarded else ''}", partial(_recorded, protocol, guarded)


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
