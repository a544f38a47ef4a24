"""What a few hundred made-up runs gave away - to whom, and in which words - against a written list.

The runs are drawn from few values each, ends of ranges among them: copies of copies' victims, updates that tell of
others, noise that is absent or drawn in training, bounds that do not exist. The other tests here say why such rows are
right; this one, that none of them moves without anybody meaning it. `python tests/privacy/ledger/test_numbers.py`
writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.privacy import AnyScheme, PrivacyContext
from asyncfl.privacy.ledger.accounts import Account
from asyncfl.privacy.ledger.budgets import BudgetTracker, stop_faults, stop_notes
from asyncfl.privacy.ledger.knowledge import knowledge
from asyncfl.privacy.ledger.measured import AUDITS, with_measured, without_measured
from asyncfl.privacy.ledger.published import Published, as_models
from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.ledger.spending import largest, spending
from asyncfl.privacy.ledger.statements import statements
from asyncfl.privacy.ledger.tables import claim_holds, ledger
from asyncfl.privacy.ledger.views import NEVER, Sent, Versions, View
from asyncfl.privacy.release import Release
from asyncfl.privacy.scheme import Guarantee
from asyncfl.privacy.stop_at import Counted, StopAt
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
CLIENTS = 4
CONTEXT = PrivacyContext(CLIENTS, 3, 6, 20, 2, batch_size=5, epochs=2, lr=0.1, n_parameters=50)
SAMPLES = np.array([20, 50, 30, 100_000])
STATED = Guarantee("client", "replace", "proven", 9.0, 1e-5, 6)
SCHEMES: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "nbafl": {"kind": "nbafl", "epsilon": 30.0},
    "clients": {"kind": "dp_fedavg", "noise_multiplier": 2.0, "clip_norm": 0.5},
    "server": {"kind": "dp_fedavg", "noise_multiplier": 2.0, "noise_at": "server", "clip_norm": 0.5},
    "bare": {"kind": "dp_fedavg", "noise_multiplier": 0.0},
    "local": {"kind": "local_gaussian", "epsilon": 9.0, "scores": {"epsilon": 0.5}},
    "laplace": {"kind": "mechanisms", "client": {"kind": "laplace", "epsilon": 6.0}},
    "both": {
        "kind": "mechanisms", "client": {"kind": "gaussian", "epsilon": 3.0},
        "server": {"kind": "laplace", "epsilon": 4.0, "releases": "rounds"},
    },
    "steps": {"kind": "dp_sgd", "noise_multiplier": 1.1},
    "budgets": {"kind": "adaptive", "budgets": [4, 8, 8, 12], "scores": {"std": 0.2}},
    "by models": {
        "kind": "mechanisms", "server": {"kind": "laplace", "epsilon": 4.0}, "clip": {"norm": 0.5, "order": 1},
    },
}  # fmt: skip


def _scheme(name: str, **fields: Any) -> Any:
    return TypeAdapter(AnyScheme).validate_python({**SCHEMES[name], **fields})


def _sent(random: np.random.Generator, buffers: int, copies: bool) -> Sent:
    """Updates in buffers of up to four; the copies of one are in its buffer."""
    version = np.repeat(np.arange(buffers) + 1, random.integers(1, 5, buffers))
    n = len(version)
    weight = random.choice([0.0, 0.25, 0.5, 1.0], n)
    copy_of = np.full(n, -1)
    computed: list[tuple[int, Any]] = []
    for place in range(n):
        alike = np.flatnonzero((version == version[place]) & (np.arange(n) < place) & (copy_of < 0))
        if copies and len(alike) and random.random() < 0.5:
            copy_of[place] = random.choice(alike)
        elif place and random.random() < 0.25:
            computed.append((place, np.unique(random.integers(0, place, 2))))
    sensitivity = random.choice([0.0, 0.5, 2.0, 3.0, math.inf], n, p=[0.1, 0.3, 0.3, 0.2, 0.1])
    return Sent(
        task=np.arange(n),
        client=random.integers(0, CLIENTS, n),
        base_version=random.integers(0, version),
        version=np.where((weight == 0) & (random.random(n) < 0.5), 0, version),
        weight=weight,
        laplace=random.random(n) < 0.2,
        std=random.choice([0.0, 0.5, 1.0, 4.0], n),
        sensitivity=sensitivity,
        model_sensitivity=sensitivity * 3,
        count=random.integers(1, 3, n),
        epsilon=random.choice([0.5, 1.0, 7.0, math.inf], n),
        additive=random.random(n) < 0.7,
        copy_of=copy_of,
        computed_from=tuple(computed),
    )


def _view(random: np.random.Generator, sent: Sent, buffers: int) -> View:
    uploads = np.where(random.random(len(sent.task)) < 0.4, random.integers(0, 9, len(sent.task)), NEVER)
    versions = np.where(random.random(buffers + 1) < 0.5, np.arange(buffers + 1) * 2, NEVER)
    score = Release("gaussian", 0.5, 0.1, 1, "replace", "proven", 3.0, 1e-5)
    return View(
        "any",
        uploads,
        versions,
        bool(random.random() < 0.3),
        frozenset(random.integers(0, CLIENTS, 1).tolist()) if random.random() < 0.3 else frozenset(),
        ((2, 3, score),) if random.random() < 0.2 else (),
    )


def _known(seed: int, copies: bool, laplace: float = 0.3) -> Any:
    """What twelve views say, of runs that are drawn; `laplace`: how often the server's noise is."""
    random, told = np.random.default_rng(seed), []
    for _ in range(12):
        buffers = int(random.integers(1, 4))
        sent = _sent(random, buffers, copies)
        std = np.where(random.random(buffers + 1) < 0.6, 0.75, 0.0)
        entered = np.arange(buffers + 1) > 0
        versions = Versions(entered, std, bool(random.random() < laplace), bool(random.random() < 0.7), 4.0)
        view = _view(random, sent, buffers)
        found = knowledge(sent, versions, view)
        other = knowledge(sent, versions, view, sent.sensitivity * 2)
        told.append([
            [column.tolist() for column in (found.holder, found.moment, found.laplace, found.count, found.counted)],
            found.sigma.tolist(), found.sensitivity.tolist(), found.epsilon.tolist(), other.sensitivity.sum(),
            view.granted(sent).tolist(), sorted(view.bare(sent, versions)), view.holds_any,
        ])  # fmt: skip
    return told


def _releases(random: np.random.Generator, n: int, laplace: float) -> Releases:
    count = random.integers(0, 3, n)
    return Releases(
        random.integers(0, CLIENTS, n),
        np.sort(random.integers(0, 5, n)),
        random.random(n) < laplace,
        random.choice([0.0, 1.0, 2.0, 9.0], n, p=[0.1, 0.3, 0.3, 0.3]),
        np.where(count, random.choice([0.0, 0.5, 1.0, math.inf], n, p=[0.1, 0.4, 0.45, 0.05]), 0.0),
        count,
        random.choice([0.0, 1.0, 3.0, math.inf], n, p=[0.1, 0.4, 0.4, 0.1]),
        random.integers(0, 2, n),
    )


def _account(random: np.random.Generator, who: str, n: int, laplace: float, stated: Guarantee | None) -> Account:
    """An account of clients, half of them without what only some have."""
    releases = _releases(random, n, laplace)
    more: dict[str, Any] = {}
    if random.random() < 0.5:
        proven = replace(releases, sensitivity=releases.sensitivity * 2)
        more = {
            "proven": proven, "flags": {1: ("scores without noise", "of one's own")}, "touched": frozenset([0, 1]),
            "trusts": "server",
        }  # fmt: skip
    if random.random() < 0.3:
        more |= {"bare": frozenset([2]), "holders": (0, 2, 3)}
    return Account(who, releases, stated, releases, **more)


def _models(random: np.random.Generator, who: str, n: int, laplace: float, stated: Guarantee | None) -> Account:
    known = as_models(_releases(random, n, laplace), np.array([0, 2, 3]))
    proven = Published(replace(known.clients, sensitivity=known.clients.sensitivity * 2), known.model)
    touched = frozenset([0]) if random.random() < 0.5 else frozenset()
    return Account(who, known.releases, stated, known, proven, {-1: ("clip norm measured",)}, None, "", touched)


def _table(columns: dict[str, Any]) -> Any:
    return {name: column.tolist() for name, column in columns.items()}


def _ledger(name: str, seed: int) -> Any:
    scheme, random = _scheme(name), np.random.default_rng(seed)
    laplace = float(name == "laplace")
    uploads = [
        _account(random, who, n, laplace, scheme.upload_guarantee(CONTEXT)) for who, n in (("server", 12), ("tap", 3))
    ]
    stated = scheme.model_guarantee(CONTEXT)
    models = [] if stated is None else [_models(random, "public", n, float("both" in name), stated) for n in (0, 7)]
    promised = [scheme.upload_guarantee(CONTEXT), STATED, None, STATED] if seed % 2 else None
    return _table(ledger(scheme, CONTEXT, SAMPLES, uploads, models, None if seed % 3 else 0.8, promised))


def _spent(seed: int) -> Any:
    random = np.random.default_rng(seed)
    laplace = (0.0, 1.0, 0.2)[seed % 3]
    account = _account(random, "server", 9, laplace, STATED if seed % 2 else None)
    models = _models(random, "public", 6, laplace, STATED)
    own = models.releases
    return [
        _table(spending([account], [models], CLIENTS, 6)), largest(account, CLIENTS, 6), models.spent, models.claimed,
        models.summed_mu, models.told.clients.holder,
        own.moment, own.counted, own.rho, own.multiplier, models.proven_spent.rdp, own.sensitivity,
        _table(spending([account], [], 201, 5)), as_models(account.releases, np.zeros(0, np.int64)).model,
        Releases.joined([account.releases, own]).sensitivity, account.proven and account.proven_releases.sensitivity,
    ]  # fmt: skip


def _mixed(delta: float) -> Any:
    """Laplace noise that varies is composed one by one where that is few releases, and else told by Renyi."""
    few = Releases(*(np.asarray(column) for column in ([0, 0], [0, 1], [True, True], [3.0, 4.0], [1.0, 1.0], [1, 1],
                                                       [1.0, 1.0], [1, 1])))  # fmt: skip
    many = Releases.joined([few] * 51)
    return [few.spent(delta), few.spent(delta, False).exact, many.spent(delta).exact[-1], many.spent(delta).rdp[-1]]


ENDS = (0.0, 1.0, 1.0 + 1e-9, math.inf)
FLAGGED = ("", "released without noise", "sensitivity heuristic; scores without noise", "scores without noise")


def _claims(flag: str) -> Any:
    rows = list(product(("proven", "heuristic", "disproved"), ENDS, ENDS, ENDS, (*ENDS, math.nan)))
    status, *numbers = (np.array(column, dtype=object) for column in zip(*rows, strict=True))
    claimed, provable, exact, measured = (column.astype(float) for column in numbers)
    flags = np.full(len(rows), flag, dtype=object)
    most = claimed * (1 + 1e-9)
    told = [
        claim_holds(status, claimed, provable, exact, flags, measured),
        claim_holds(status, claimed, most, most, flags),
        claim_holds(status, claimed, provable, provable, flags, most),
    ]
    letters = {True: "t", False: "f", None: "."}
    return ["".join(letters[one] for one in column) for column in told]


def _row(random: np.random.Generator, client: int) -> dict[str, Any]:
    """A client's row, or for -1 the models': as ledgers may have them, claims that hold and do not at random."""
    exact = random.choice([0.0, 0.5, 1.0, 2.00001, 2.0, 8.5, math.inf])
    twins, canaries = (random.choice([None, None, 0.0, 1.0, 2.0, 9.0, math.inf]) for _ in AUDITS)
    return {
        "seed": int(random.integers(0, 2)) if random.random() < 0.3 else 0,
        "holder": "client" if client >= 0 else "model",
        "client": client,
        "adversary": str(random.choice(["eavesdropper", "server"])),
        "trusts": "server, clients" if random.random() < 0.7 else "",
        "unit": str(random.choice(["sample", "client"])),
        "neighbours": str(random.choice(["replace", "zero_out"])),
        "status": str(random.choice(["proven", "proven", "heuristic", "disproved", "invalid", "none"])),
        "claimed_epsilon": random.choice([1.0, 6.0, math.inf]),
        "delta": random.choice([0.0, 1e-5]),
        "exact_epsilon": exact,
        "provable": exact if random.random() < 0.4 else random.choice([0.0, 1.0, 2.0, 4.0, math.inf]),
        "measured": max((one for one in (twins, canaries) if one is not None), default=None),
        "measured_by_twins": twins,
        "measured_by_canaries": canaries,
        "claim_holds": [None, True, False][random.integers(0, 3)],
        "flags": str(random.choice(FLAGGED, p=[0.5, 0.1, 0.2, 0.2])),
    }


def _said(seed: int) -> Any:
    """What is said of thirty ledgers, each of a few rows; in half of them nobody is measured and little is known."""
    random, told = np.random.default_rng(seed), []
    for number in range(30):
        rows = [_row(random, client) for client in (*range(number % 3 + 1), *(-1,) * (number % 2))]
        if number % 4 == 0:
            rows = [{**row, "exact_epsilon": 0.0, "provable": 0.0, **_UNMEASURED} for row in rows]
        if number % 4 == 1:
            rows = [{**row, "claimed_epsilon": math.inf, **_UNMEASURED} for row in rows]
        told.append(statements(pa.Table.from_pylist(rows)))
    return told


_UNMEASURED = {"measured": None, "measured_by_twins": None, "measured_by_canaries": None}


def _audited(seed: int) -> Any:
    random = np.random.default_rng(seed)
    rows = [{**_row(random, client), "seed": own, "adversary": "server"} for own in (0, 1) for client in (-1, 0, 1, 2)]
    table = pa.Table.from_pylist(rows)
    keys = [(row["seed"], row["holder"], row["client"], "server") for row in rows]
    weak = frozenset(key for key, row in zip(keys, rows, strict=True) if row["status"] != "proven")
    told = []
    for by in AUDITS:
        found = with_measured(table, dict(zip(keys[::2], random.choice([0.0, 1.0, 7.0], 4), strict=True)), weak, by)
        for own in (found, without_measured(found, 1, by)):
            told.append([own[name].to_pylist() for name in ("status", "measured", f"measured_by_{by}", "claim_holds")])
    return told


def _stop(name: str, **stop_at: Any) -> Any:
    """What is refused and noted of a budget, and how far clients get under it who also score."""
    scheme = _scheme(name)
    try:
        budget = StopAt(**stop_at)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    scheme = scheme.model_copy(update={"stop_at": budget})
    counted = budget.counted(holds_uploads=False)
    told: list[Any] = [stop_notes(scheme)]
    for known, whole in product((True, False), (True, False)):
        told.append([str(fault) for fault in stop_faults(scheme, CONTEXT, known, counted, whole)])
    tracker = BudgetTracker(budget, scheme, CONTEXT, SAMPLES, counted=counted)
    told.append(tracker.delta)
    for client in (0, 3):
        turn, scored = 0, []
        while turn < 9 and tracker.affords(client, turn):
            scored += [tracker.answer(client, models) for models in ((2, 5) if turn % 2 else ())]
            tracker.send(client, 1 if turn == 1 else None)
            turn += 1
        told.append([turn, tracker.spent(client), tracker.uploads(client), sum(scored), len(scored)])
        told.append([tracker.release(client, turn, 1).std, tracker.affords(client, turn), tracker.said(client)])
    return told


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for seed in range(12):
        yield f"known {seed}", partial(_known, seed, False)
        yield f"known, with copies {seed}", partial(_known, 100 + seed, True)
    for seed in range(5):
        yield f"known, with copies under Laplace noise {seed}", partial(_known, 200 + seed, True, 1.0)
    for name in SCHEMES:
        for seed in range(3):
            yield f"ledger {name} {seed}", partial(_ledger, name, seed)
    for seed in range(6):
        yield f"spent {seed}", partial(_spent, seed)
    for delta in (0.0, 1e-5):
        yield f"mixed {delta}", partial(_mixed, delta)
    for flag in FLAGGED:
        yield f"claims, flagged {flag!r}", partial(_claims, flag)
    for seed in range(8):
        yield f"said {seed}", partial(_said, seed)
    for seed in range(3):
        yield f"audited {seed}", partial(_audited, seed)
    for name in SCHEMES:
        for adversary, of in (("server", "uploads"), ("eavesdropper", "uploads"), ("eavesdropper", "models"),
                              ("eavesdropper", "all"), ("public", "models")):  # fmt: skip
            for accountant, epsilon in (("exact", 40.0), ("rdp", 1.0), ("basic", 40.0), ("naive", 20.0)):
                if accountant == "exact" or adversary == "server":
                    asked = {"adversary": adversary, "of": of, "accountant": accountant, "epsilon": epsilon}
                    yield f"{name} kept to {adversary} {of} {accountant}", partial(_stop, name, **asked)
        yield f"{name} kept to no delta", partial(_stop, name, epsilon=20.0, delta=0.0)


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


def test_what_counts_by_default() -> None:
    tracker = BudgetTracker(StopAt(epsilon=1.0), _scheme("clients"), CONTEXT, SAMPLES)
    assert tracker.counted == Counted(by_models=False)


if __name__ == "__main__":
    write(LIST, CALLS)
