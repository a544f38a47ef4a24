"""What the lab's small federations are made of and come to, against a written list.

`python tests/testing/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from asyncfl.defences import Detector, Kardam, Median, Spectral, Strikes
from asyncfl.streams import Streams
from asyncfl.testing import digits, stress_grid
from asyncfl.testing.digits import Skew
from asyncfl.testing.stress import Stressed, StressReport
from asyncfl.testing.trials import ATTACKS, Trial, TrialClients, TrialResult, play
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
SMALL = {"clients": 12, "turns": 2, "buffer": 6}
JUDGES: dict[str, Detector | None] = {"nobody": None, "spectral": Spectral(), "kardam": Kardam(expected_share=0.4)}


def _shared(skew: Skew) -> Any:
    held = digits.shared_out(skew, 6, Streams(3))
    told = [held.sizes, [np.bincount(labels, minlength=10).tolist() for labels in held.labels]]
    return [*told, list(held.images), *held.root, *held.test]


def _federation(trial: Trial) -> Any:
    clients = TrialClients(trial)
    models = [digits.initial_model(Streams(1)) + np.float32(0.01 * version) for version in range(4)]
    told: list[Any] = [trial.versions, trial.attackers, trial.without_attackers.attackers, clients.malicious]
    for version in range(3):
        held = clients.buffer(clients.next_clients(np.arange(trial.clients) != 3), models[: version + 1])
        told += [held.clients, held.samples, held.base_versions, held.base_of, held.deltas, held.upload_std]
    asked = np.stack(models)
    told += [clients.scores(client, asked) for client in (0, int(np.argmax(clients.malicious)))]
    known = clients.context()
    told += [known.samples, known.steps, known.lr, known.gradient_clip]
    if known.root_gradient is not None and known.root_gradients is not None:
        told += [known.root_gradient(models[0]), known.root_gradients(models[0])]
    return told


def _result(trial: Trial, harmed: int, accuracy: float) -> TrialResult:
    bad = trial.attackers
    return TrialResult(trial, 40 - bad, bad, harmed, bad // 2, 200, 5 * harmed, 100, 30, 60, accuracy)


def _report() -> Any:
    cases = [
        Stressed(_result(Trial("IID"), 0, 0.8), 0.81, 0.81, 3, 7),
        Stressed(_result(Trial("shards", buffer=5), 1, 0.7), 0.75, 0.75, 5, 25),
        Stressed(_result(Trial("IID", "ALIE", 0.25), 2, 0.6), 0.5, 0.8, 60, 20),
        Stressed(_result(Trial("domains", "IPM", 0.4), 2, 0.3), 0.6, 0.8, 0, 120),
    ]
    told: list[Any] = []
    for some in (cases, cases[:1], cases[2:3]):
        one = StressReport(tuple(some))
        told += [one.honest, one.honest_banned, one.harmed, one.most_harmed, one.worst_attack, list(one.broken)]
        told += [one.rows, list(one.told)]
        told += [[cell.federations, cell.gained] for cell in one.cells]
        told += [case.gained_between for case in some]
    return told


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for skew in get_args(Skew):
        yield f"shared out by {skew}", partial(_shared, skew)
    for number, attack in enumerate([None, *ATTACKS]):
        trial = Trial("Dirichlet 1", attack, 0.34, noise=("none", "usual", "strong")[number % 3], seed=number, **SMALL)
        yield f"federation under {attack}", partial(_federation, trial)
        for name, detector in JUDGES.items():
            yield f"{attack}, judged by {name}", partial(play, trial, detector)
    rooted = Trial("IID", "sign flip", 0.34, root=True, **SMALL)
    yield "federation with a root set", partial(_federation, rooted)
    yield "a root set", partial(play, rooted, Spectral(), Strikes(threshold=1), Median(), Median())
    yield (
        "grid",
        lambda: [
            [(one.skew, one.attack, one.share, one.buffer, one.noise, one.root, one.seed) for one in grid[::7]]
            for grid in (stress_grid(2), stress_grid(1, root=True, first=3))
        ],
    )
    yield "report", _report


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=3e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
