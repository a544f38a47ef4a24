"""All that each scheme answers - noise, sensitivities, claims, flags, notes - and the ledgers of typical uploads and
models, in three federations, against a written list.

The other tests here say why such answers are right; this one, that none of them moves without anybody meaning it.
`python tests/privacy/schemes/test_answers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from asyncfl.learning import Layout
from asyncfl.privacy import AnyScheme, DpSgd, PrivacyContext, Scheme
from asyncfl.privacy.context import Contribution
from asyncfl.privacy.ledger.accounts import model_accounts, upload_accounts
from asyncfl.privacy.ledger.budgets import BudgetTracker, stop_faults, stop_notes
from asyncfl.privacy.ledger.published import model_releases, models_of
from asyncfl.privacy.ledger.releases import answer_release, typical_uploads, uploads_of
from asyncfl.privacy.ledger.tables import flags_of, ledger
from tests.written import compare, outcome, sums, write

LIST = Path(__file__).with_name("answers.json")
GAUSSIAN, LAPLACE = {"kind": "gaussian", "epsilon": 3.0}, {"kind": "laplace", "epsilon": 6.0}
CLASSICAL = {"kind": "gaussian", "epsilon": 20.0, "calibration": "classical", "releases": "rounds"}
OF_MODELS, BY_L1 = {"target": "model", "norm": 2.0}, {"norm": 0.5, "order": 1}
BUDGETS = {"kind": "adaptive", "budgets": [4, 4, 8, 8, 12]}
SCHEMES: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "nbafl": {"kind": "nbafl", "epsilon": 60.0},
    "nbafl, more": {
        "kind": "nbafl", "epsilon": 6.0, "exposures": 4, "clip_norm": 2.0, "sensitivity": "2C", "composition": "rdp",
        "b_rule": "amplification",
    },
    "nbafl, naive": {
        "kind": "nbafl", "epsilon": 900.0, "exposures": {"kind": "share", "share": 0.5}, "clip_norm": 1.0,
        "composition": "naive_delta_split", "b_rule": "none", "constant": 1.0,
    },
    "nbafl without noise": {"kind": "nbafl", "epsilon": math.inf},
    "fedavg": {"kind": "dp_fedavg", "noise_multiplier": 1.5, "clip_norm": 0.5},
    "fedavg by the server": {
        "kind": "dp_fedavg", "noise_multiplier": 4.0, "noise_at": "server", "neighbours": "zero_out",
    },
    "fedavg, adaptive": {"kind": "dp_fedavg", "noise_multiplier": 0.5, "adaptive": {"fraction_noise": 3.0}},
    "fedavg, adaptive at the server": {
        "kind": "dp_fedavg", "noise_multiplier": 0.05, "noise_at": "server", "adaptive": {"quantile": 0.7},
    },
    "fedavg without noise": {"kind": "dp_fedavg", "noise_multiplier": 0.0},
    "sgd": {"kind": "dp_sgd", "noise_multiplier": 1.1, "clip_norm": 2.0},
    "sgd by its epsilon": {"kind": "dp_sgd", "epsilon": 8.0},
    "local": {"kind": "local_gaussian", "epsilon": 5.0, "clip_norm": 0.2},
    "local, in all": {"kind": "local_gaussian", "epsilon": 30.0, "budget": "total", "constant": 1.5},
    "local, each epoch": {"kind": "local_gaussian", "epsilon": 50.0, "noise": "epoch"},
    "a Gaussian": {"kind": "mechanisms", "client": GAUSSIAN},
    "Laplace noise": {"kind": "mechanisms", "client": {**LAPLACE, "releases": 4}, "clip": BY_L1},
    "Laplace noise from the L2 norm": {
        "kind": "mechanisms", "client": {**LAPLACE, "sensitivity_from": "from_l2", "composition": "rdp", "delta": 1e-4},
    },
    "Laplace noise as in the seed": {
        "kind": "mechanisms", "client": {**LAPLACE, "sensitivity_from": "seed_literal"}, "clip": OF_MODELS,
    },
    "both": {"kind": "mechanisms", "client": CLASSICAL, "server": GAUSSIAN, "clip": OF_MODELS},
    "Laplace noise at the server": {
        "kind": "mechanisms", "server": {**LAPLACE, "releases": "rounds"}, "clip": BY_L1,
    },
    "clipped gradients": {"kind": "mechanisms", "client": GAUSSIAN, "clip": {"target": "gradient", "norm": 0.3}},
    "budgets": {**BUDGETS, "threshold": 3.0, "clip_norm": 0.5},
    "budgets of gradients": {**BUDGETS, "upload": "gradient", "sensitivity": "2M/n", "adjustment": "exponential"},
    "constant budgets": {
        **BUDGETS, "adjustment": "none", "sensitivity": "2M", "threshold": 2.0, "round_budget": "max", "constant": 1.25,
        "shuffler": {"swaps": 3, "seconds": 2.5},
    },
    "as much spent": {**BUDGETS, "equal_spend": "rdp", "sensitivity": "M"},
    "scores with noise": {
        "kind": "dp_fedavg", "noise_multiplier": 1.5, "scores": {"std": 0.05}, "stop_at": {"epsilon": 9.0},
    },
    "scores with an epsilon": {
        **BUDGETS, "scores": {"epsilon": 2.0}, "stop_at": {"epsilon": 30.0, "accountant": "naive"},
    },
    "a budget by Renyi accounting": {
        "kind": "mechanisms", "client": LAPLACE, "clip": BY_L1, "stop_at": {"epsilon": 40.0, "accountant": "rdp"},
    },
    "too small a budget": {"kind": "nbafl", "epsilon": 60.0, "stop_at": {"epsilon": 0.5}},
}  # fmt: skip
CONTEXTS = {
    "small": PrivacyContext(5, 5, 20, 30, 2, batch_size=8, epochs=2, lr=0.1, n_parameters=100),
    "drawn": PrivacyContext(50, 20, 200, 90, 3, epochs=1, lr=0.5, n_parameters=9, rate=0.7, plain_sgd=False),
    "uneven": PrivacyContext(5, 3, 4, 10, 4, equal_weights=False, fixed_weights=False, once_each=False, epochs=4),
}
SEVERAL = tuple(
    Contribution(client, size, turn, None, weight, epochs)
    for client, size, turn, weight, epochs in ((0, 40, 0, 0.3, None), (3, 90, 2, 0.5, 1), (0, 40, 1, 0.2, None))
)
TRAINING: Any = SimpleNamespace(
    epochs=2, momentum=0.5, proximal_mu=0.1, gradient_clip=None, example_clip=1.0, example_noise=0.5
)

REFUSED: dict[str, dict[str, Any]] = {
    "budgets at their floor": {**BUDGETS, "floor": 8.0},
    "budgets that never change": {**BUDGETS, "adjustment": "none", "equal_spend": "naive", "floor": 8.0},
    "local, in each epoch without noise": {"kind": "local_gaussian", "epsilon": math.inf, "noise": "epoch"},
}
"""What is asked for its faults alone."""


def scheme_of(name: str) -> Any:
    return TypeAdapter(AnyScheme).validate_python({**SCHEMES, **REFUSED}[name])


def _faults(name: str) -> Any:
    """Faults with trainings that fit and do not, and with one client less."""
    scheme, fields = (
        scheme_of(name),
        ("epochs", "momentum", "proximal_mu", "gradient_clip", "example_clip", "example_noise"),
    )
    trainings: list[Any] = [None] + [
        SimpleNamespace(**dict(zip(fields, values, strict=True)))
        for values in (
            (1, 0.0, 0.0, None, None, 0.0), (1, 0.5, 0.0, 0.2, 2.0, 1.1), (2, 0.0, 0.1, 0.3, 2.0, 1.1 + 1e-4),
            (1, 0.0, 0.0, 0.20001, 2.0001, 0.0), (2, 0.0, 0.0, 0.2, 1.0, scheme.multiplier(2, 20) * (1 + 1e-12) if
             isinstance(scheme, DpSgd) else 0.5),
        )
    ]  # fmt: skip
    return [
        [f"{fault.field}: {fault.message}" for fault in scheme.faults(clients, 20, training)]
        for training in trainings
        for clients in ((5, 4) if training is None else (5,))
    ]


def _answers(name: str, context: PrivacyContext) -> Any:
    scheme = scheme_of(name)
    state = scheme.start(context)
    norms = np.array([0.5, 3.0, 1.0, 9.0])
    norm = state.clip_norm(norms)
    once = Contribution(1, 30)
    budget = scheme.upload_guarantee(context)
    told = [
        [scheme.off, scheme.bounds_uploads, scheme.needs_every_task, scheme.noise_each_epoch, scheme.clipped],
        [scheme.update_factor(context, size, epochs) for size, epochs in ((30, None), (33, 1))],
        [norm, state.epsilon(0, 0), state.epsilon(4, 1)],
        [scheme.upload_noise(context, norm, one) for one in (once, Contribution(4, 77, 1, 2.0, None, 1))],
        [scheme.proven_sensitivity(context, norm, one) for one in (once, Contribution(4, 77, 1, 2.0, None, 1))],
        [scheme.model_noise(context, norm), scheme.model_noise(context, norm, SEVERAL)],
        scheme.model_multiplier(context),
        [budget, scheme.upload_guarantee(context, 3), scheme.model_guarantee(context)],
        [one and [one.epsilon, one.delta, one.constant] for one in
         (scheme.classical(context, 2.0), scheme.classical(context, 50.0, True))],
        [scheme.flags(context, 2.0), scheme.flags(context, 99.0, True), scheme.notes(context)],
        [flags_of(scheme, context, budget), flags_of(scheme, context, scheme.model_guarantee(context), 99.0, True)],
        outcome(lambda: _with_epsilon(scheme, context, norm, once)),
        [str(fault) for fault in scheme.faults(context.clients, context.rounds, TRAINING)],
        scheme.assumed_exposures(context.rounds, context.participants, context.clients),
        [scheme.accounts_for_training, scheme.reference is None, _mixed(scheme.mixing_node)],
    ]  # fmt: skip
    state.trained(once, 2.0, 3.0)
    state.trained(once, 1.5, 3.0)
    state.collected(SEVERAL, norms, np.random.default_rng(0))
    return [*told, state.clip_norm(norms), state.epsilon(1, 2)]


def _mixed(node: Any) -> Any:
    """What a node makes of six models of two layers, one of them malformed and one not finite."""
    if node is None:
        return None
    models = np.arange(36.0).reshape(6, 6)
    models[4, 1] = np.nan
    layout = Layout.of([("a", {"weight": (2, 2)}), ("b", {"bias": (2,)})])
    node.shuffle(models, layout, np.arange(6) != 2, np.random.default_rng(0))
    whole = np.arange(12.0).reshape(2, 6)
    node.shuffle(whole, layout, np.ones(2, bool), np.random.default_rng(1))
    return [node.seconds, node.said, models[:, ::4].tolist(), whole]


def _with_epsilon(scheme: Any, context: PrivacyContext, norm: float | None, one: Contribution) -> Any:
    other, change = scheme.with_epsilon(5.0, 2, 0.8)
    return [other.upload_noise(context, norm, one), change]


def _ledgers(name: str, context: PrivacyContext) -> Any:
    scheme, samples = scheme_of(name), np.array([30, 90, 40, 31, 1000])
    made = {"server": uploads_of(scheme, context, samples, [0, 1, 5, 2, 9])}
    models = {"public": models_of(scheme, context, [3, 0, context.participants, 1])}
    accounts = upload_accounts(scheme, context, made), model_accounts(scheme, context, models)
    found = pa.table({name: column.tolist() for name, column in ledger(scheme, context, samples, *accounts).items()})
    releases = model_releases(scheme, context, 1.0, SEVERAL, [0.1, 0.2, 0.3], 0.05)
    answers = [answer_release(scheme.scores, scheme.upload_guarantee(context), n, 40) for n in (1, 7)]
    return [sums(found), releases, answers, typical_uploads(scheme, context, samples[:2], 1.5)]


def _stopped(name: str) -> Any:
    scheme, context = scheme_of(name), CONTEXTS["small"]
    tracker = BudgetTracker(scheme.stop_at, scheme, context, np.array([30, 90, 40, 31, 1000]))
    told: list[Any] = [stop_notes(scheme), [str(fault) for fault in stop_faults(scheme, context)]]
    for client in (0, 4):
        turn = 0
        while turn < 30 and tracker.affords(client, turn):
            scored = tracker.answer(client, 3)
            tracker.send(client, 1 if turn % 2 else None)
            told.append([tracker.spent(client), scored])
            turn += 1
        told.append([turn, tracker.would_spend(client), tracker.uploads(client), tracker.said(client)])
    return told


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in SCHEMES:
        for where, context in CONTEXTS.items():
            if context.participants > len(SCHEMES[name].get("budgets", range(99))):
                continue
            yield f"{name}, {where}", partial(_answers, name, context)
            yield f"ledger of {name}, {where}", partial(_ledgers, name, context)
        if type(scheme_of(name)).faults is not Scheme.faults:
            yield f"faults of {name}", partial(_faults, name)
        if "stop_at" in SCHEMES[name]:
            yield f"{name} is kept to", partial(_stopped, name)
    for name in REFUSED:
        yield f"faults of {name}", partial(_faults, name)


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_answer_moves(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    for name, call in CALLS.items():
        if isinstance(said := outcome(call), str):
            print(name, said)
    write(LIST, CALLS)
