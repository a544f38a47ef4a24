"""What audits decide beside what they measure - which epsilon a bound is held against, which samples stand for others,
what is said of earlier audits and of runs that come out otherwise - against a written list.

`python tests/audit/test_written.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from asyncfl.audit.again import FinishedRun
from asyncfl.audit.canaries import _stated
from asyncfl.audit.canary_bounds import _bounds
from asyncfl.audit.reconstruction.overheard import chosen_task
from asyncfl.audit.shadows import ShadowPool, pool_of, worlds
from asyncfl.audit.twins import _check_uploads, _note, earlier
from asyncfl.errors import RunError, ScenarioError
from asyncfl.storage import AUDIT
from asyncfl.trace import Kind
from tests.written import compare, write

LIST = Path(__file__).with_name("written.json")
FOLDER = Path("runs/one")


def _refused(call: Callable[[], Any]) -> Any:
    """What a call comes to, or what it is refused with."""
    try:
        return call()
    except (RunError, ScenarioError) as error:
        return str(error)


def _held_against(seed: int) -> Any:
    """Claims and epsilons of ledgers of three rows, for each unit of canaries and each delta that may be asked for."""
    random, told = np.random.default_rng(seed), []
    for _ in range(12):
        n = 3
        ledger = pd.DataFrame({
            "adversary": random.choice(["server", "tap"], n, p=[0.8, 0.2]),
            "claimed_epsilon": random.choice([2.0, 9.0, math.inf], n, p=[0.4, 0.4, 0.2]),
            "delta": random.choice([0.0, 1e-5, 1e-3], n),
            "unit": random.choice(["sample", "client"], n),
            "releases": random.choice([0, 1, 4], n),
            "squared_mu": random.choice([0.0, 0.5, 3.0, math.inf], n, p=[0.2, 0.4, 0.3, 0.1]),
            "exact_epsilon": random.choice([0.0, 1.5, 8.0, math.inf], n),
            "distribution": random.choice(["gaussian", "laplace"], n, p=[0.8, 0.2]),
        })  # fmt: skip
        ledger.loc[0, "adversary"] = "server"
        asked = product(("sample", "client"), (None, 0.0, 1e-5, 1e-3))
        told.append([[one.claimed, one.exact, one.delta] for one in (_stated(ledger, "server", *of) for of in asked)])
    return told


def _stands_with(seed: int) -> Any:
    """Rows with which what canaries found stands."""
    random, told = np.random.default_rng(seed), []
    for _ in range(10):
        rows = [
            {
                "seed": own, "adversary": who, "holder": "model" if client < 0 else "client", "client": client,
                "provable": random.choice([1.0, 5.0, math.inf]), "exact_epsilon": random.choice([1.0, 4.0]),
                "delta": random.choice([1e-5, 1e-3]), "unit": random.choice(["sample", "client", "none"]),
                "neighbours": random.choice(["replace", "zero_out"]),
            }
            for own in (0, 1) for who in ("server", "tap") for client in (-1, 0, 1, 2)
        ]  # fmt: skip
        found = [
            {
                "seed": own, "adversary": who, "held": random.choice([0, 2, 2]), "most": random.choice([0.0, 1.0, 1.0]),
                "unit": unit, "delta": random.choice([1e-5, 1e-3]), "measured": 0.5,
            }
            for own in (0, 1) for who in ("server", "tap") for unit in ("sample", "client")
        ]  # fmt: skip
        scores = pa.table({"seed": [0, 0, 1], "client": [0, 2, 1]})
        audit: Any = SimpleNamespace(found=pa.Table.from_pylist(found), scores=scores)
        told.append([[list(row), bound] for row, bound in _bounds(pa.Table.from_pylist(rows), audit)])
    return told


def _pool(classes: int, client: int, wanted: int, used: int) -> Any:
    """A client's samples, and those of the test set of its domain that stand for nobody."""
    labels = np.array([0, 0, 1, 2, 1, 1, 5])
    data: Any = SimpleNamespace(
        client=lambda number: (np.arange(4.0)[:, None] + 10 * number, labels[:4] if number else labels[3:]),
        client_domains=np.array([0, 1]),
        test_offsets=np.array([0, 9, 16]),
        test_labels=np.array([0, 1, 2, 0, 1, 1, 5, 5, 2, 1, 0, 0, 1, 0, 2, 2]),
        test_images=np.arange(16.0)[:, None] / 16,
        classes=classes,
    )
    left = np.arange(16) % 5 != used
    pool = pool_of(data, client, left, wanted)
    return [pool.images.ravel(), pool.labels, pool.member, left.astype(int).tolist()]


def _worlds(members: int, others: int, number: int) -> Any:
    n = members + others
    pool = ShadowPool(np.zeros((n, 1)), np.zeros(n, np.int64), np.arange(n) < members)  # type: ignore[arg-type]
    return [world.astype(int).tolist() for world in worlds(pool, number, np.random.default_rng(1))]


def _audited() -> Any:
    """A run of three seeds, of which two were audited."""
    table = pa.table({"seed": [0, 0, 0, 2], "client": [4, 1, 4, 0]})
    return SimpleNamespace(
        tables={AUDIT: table}, files={"disproved-0.b.npz": b"", "disproved-0.a.npz": b"", "disproved-2.npz": b""}
    )


def _noted() -> Any:
    own = {"0": {"notes": ["one", "audit: old"]}, "1": {"notes": ["audit: other"]}}
    run: Any = SimpleNamespace(summary={"seeds": own, "notes": ["all", "audit: old", "audit: other"]})
    _note(run, 0, ["audit: new", "audit: other"])
    return run.summary


def _uploaded(clients: Any, seeds: tuple[int, ...]) -> Any:
    table = pd.DataFrame(
        {"seed": [0] * 7 + [1], "client": [0, 1, 2, 3, 4, 5, 6, 0], "uploads": [3, 2, 0, 1, 1, 4, 2, 1],
         "malicious_uploads": [0, 2, 0, 0, 0, 1, 0, 1]}
    )  # fmt: skip
    finished: Any = SimpleNamespace(run=SimpleNamespace(clients=table), folder=FOLDER)
    return _refused(lambda: _check_uploads(finished, SimpleNamespace(clients=clients), seeds))  # type: ignore[arg-type]


def _compared(**made: list[Any]) -> Any:
    """What is said of a run whose rounds come out as `made`."""
    there = {"version": [0, 1, 2], "clip_norm": [math.nan, 2.0, 3.0], "train_loss": [3.0, 2.0, 1.0],
             "train_loss_b": [3.0, 2.0, 1.0], "word": ["a", "b", "c"]}  # fmt: skip
    finished = FinishedRun(FOLDER, None)  # type: ignore[arg-type]
    return _refused(lambda: finished._compare(7, pd.DataFrame(there), pd.DataFrame({**there, **made})))


def _chosen(holder: Any, uplink: bool, scoring: bool, asked: dict[str, int], seed: int = 0, node: Any = None) -> Any:
    """The task that is chosen of a run of three clients, the last of which attacks."""
    kinds = [kind.value for kind in (Kind.AGGREGATED, Kind.FLAGGED, Kind.OVERHEARD, Kind.LOST)]
    rows = [
        (0, 0, 5, 0, "x"), (0, 0, 3, 1, "x"), (0, 1, 4, 1, "x"), (0, 0, 1, 2, "x"), (0, 2, 4, 1, "up"),
        (0, 2, 3, 1, "down"), (0, 2, 5, 0, "scored"), (0, 2, 1, 2, "up"), (0, 2, -1, 0, "up"), (0, 3, 0, 0, "x"),
        (1, 0, 2, 0, "x"),
    ]  # fmt: skip
    columns = list(zip(*rows, strict=True))
    events = pa.table({
        "seed": columns[0], "kind": pa.array([kinds[one] for one in columns[1]]).dictionary_encode(),
        "task": columns[2], "client": columns[3], "detail": pa.array(columns[4]).dictionary_encode(),
    })  # fmt: skip
    clients = pd.DataFrame({"seed": [0, 0, 0, 1], "client": [0, 1, 2, 0], "attacker": [False, False, True, False]})
    tap = SimpleNamespace(uplink=uplink, scoring=scoring, packet_loss=0.25)
    scenario = SimpleNamespace(
        data=SimpleNamespace(clients=3), privacy=SimpleNamespace(mixing_node=node), world=SimpleNamespace(tap=tap)
    )
    run: Any = SimpleNamespace(
        run=SimpleNamespace(scenario=scenario, tables={"events": events}, clients=clients), folder=FOLDER
    )
    return _refused(lambda: chosen_task(run, seed, holder, **asked))


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for seed in range(4):
        yield f"held against {seed}", partial(_held_against, seed)
        yield f"stands with {seed}", partial(_stands_with, seed)
    for classes, client, wanted, used in product((10, 0), (0, 1), (0, 1, 4, 9), (0, 7)):
        yield f"pool of {classes} {client} {wanted} {used}", partial(_pool, classes, client, wanted, used)
    for members, others, number in ((1, 1, 3), (2, 3, 4), (3, 2, 5), (3, 0, 2), (2, 2, 0)):
        yield f"worlds of {members} {others} {number}", partial(_worlds, members, others, number)
    yield "earlier", lambda: earlier(_audited(), (0, 1, 2))
    yield "no earlier", lambda: earlier(SimpleNamespace(tables={}, files={}), (0,))  # type: ignore[arg-type]
    yield "noted", _noted
    for clients in (3, (0, 3), (2,), (1, 2, 3), (9,)):
        for seeds in ((0,), (0, 1)):
            yield f"uploads of {clients} in {seeds}", partial(_uploaded, clients, seeds)
    for number, made in enumerate((
        {}, {"clip_norm": [math.nan, 2.0, 3.5]}, {"clip_norm": [math.nan, 2.5, 3.5]}, {"clip_norm": [1.0, 2.0, 3.0]},
        {"train_loss": [9.0, 9.0, 1.0]}, {"train_loss": [3.0, 2.0, 1.5]}, {"train_loss_b": [9.0, 9.0, 1.0]},
        {"word": ["a", "b", "d"], "clip_norm": [math.nan, 2.5, 3.0]}, {"new": [1, 2, 3]},
        {"clip_norm": [math.nan, math.nan, 3.0]}, {"version": [0, 1, 3]},
    )):  # fmt: skip
        yield f"compared {number}", partial(_compared, **made)  # type: ignore[arg-type]
    yield (
        "compared with fewer",
        lambda: _refused(
            lambda: FinishedRun(FOLDER, None)._compare(3, pd.DataFrame({"a": [1, 2, 3]}), pd.DataFrame({"a": [1]}))  # type: ignore[arg-type]
        ),
    )
    for holder, (uplink, scoring) in product(
        ("server", "eavesdropper"), ((True, False), (False, True), (False, False))
    ):
        for asked in ({}, {"client": 1}, {"client": 0}, {"client": 2}, {"client": 3}, {"task": 3}, {"task": 5},
                      {"task": 0}, {"client": 0, "task": 4}):  # fmt: skip
            yield f"chosen {holder} {uplink} {scoring} {asked}", partial(_chosen, holder, uplink, scoring, asked)
    yield "chosen of another seed", partial(_chosen, "server", True, False, {}, 1)
    yield "caught of another seed", partial(_chosen, "eavesdropper", True, False, {}, 1)
    for holder in ("server", "eavesdropper"):
        yield f"chosen of the mixed {holder}", partial(_chosen, holder, True, False, {}, 0, object())


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_decided_otherwise(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
