"""Twins of models whose noise is correlated: never more than the explicit Gaussian vector, nor than the ledger."""

from typing import Any

import numpy as np
import pytest

from asyncfl.extras.audit.neighbours import audited
from asyncfl.extras.audit.neighbours.correlated_models import StepPair, row_pairs
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.correlation import Banded, Factorisation, Tree
from asyncfl.privacy.correlation.whitening import whitening
from asyncfl.results.seed_ledger import SeedLedger
from tests.extras.audit.neighbours.observed import observed
from tests.privacy.correlation.explicit_noise import noise_matrix

ROUNDS = 7


def run_of(factorisation: Factorisation) -> tuple[Any, Any, Any]:
    changes = {
        "privacy": {
            "kind": "dp_ftrl",
            "noise_multiplier": 0.5,
            "clip_norm": 0.05,
            "factorisation": factorisation.model_dump(),
        },
        "data.clients": 4,
        "protocol": {"kind": "sync", "rounds": ROUNDS, "participants": 2, "min_separation": 2},
        "world.tap.downlink": True,
    }
    observer, run = observed(changes, clients=(0,), neighbours=("zeroed",), twins=1)
    ledger = SeedLedger(run).ledger
    return observer, run, audited(observer, run, ledger)


@pytest.mark.parametrize("factorisation", [Banded(bands=2), Tree(), Tree(restart=3, complete=True)], ids=repr)
def test_twins_of_a_run_measure_no_more_than_the_ledger_proves(factorisation: Factorisation) -> None:
    _observer, _run, found = run_of(factorisation)
    ledger = found.ledger.to_pandas().query("holder == 'model' and adversary == 'eavesdropper'").iloc[0]
    rows = found.table.to_pandas().query("holder == 'model' and adversary == 'eavesdropper'")
    assert 0 < ledger["measured"] <= ledger["provable"]
    assert (rows["sensitivity_share"].dropna() <= 1 + 1e-5).all()
    assert ledger["status"] == "proven"


def test_twins_of_orthogonal_columns_measure_the_whole_likelihood_ratio() -> None:
    """Two bands, and client 0 in every second version: its updates are in rows of their own."""
    observer, run, found = run_of(Banded(bands=2))
    [twins] = [[one for task in observer.clients[0].tasks.values() for one in task.twins.values()]]
    task_of = {one.task: one for one in observer.clients[0].tasks.values()}
    heard = ROUNDS - 1  # the last model is sent to nobody
    explicit = noise_matrix(Banded(bands=2), ROUNDS)[:heard]
    precision, steps = np.linalg.inv(explicit @ explicit.T), {}
    for version, model in run.models.items():
        for upload in model.uploads:
            if upload.task in task_of and version <= heard:
                [twin] = task_of[upload.task].twins.values()
                steps[version] = upload.weight * twin.distance / model.server_std
    assert len(steps) >= 2
    assert len(twins) >= len(steps)
    truth = sum(precision[version - 1, version - 1] * step**2 for version, step in steps.items())
    rows = found.table.to_pandas().query("holder == 'model' and adversary == 'eavesdropper'")
    assert rows["epsilon"].iloc[-1] == pytest.approx(float(exact_epsilon(truth, 1e-5)), rel=1e-6)


@pytest.mark.parametrize("factorisation", [Banded(bands=3), Tree(), Tree(restart=3, complete=True)], ids=repr)
def test_rows_differ_by_no_more_than_any_directions_make_them(factorisation: Factorisation) -> None:
    random = np.random.default_rng(0)
    explicit = noise_matrix(factorisation, 9)[:8]
    precision = np.linalg.inv(explicit @ explicit.T)
    for _ in range(50):
        vectors = np.zeros((8, 3))
        entered = random.choice(8, size=3, replace=False)
        vectors[entered] = random.normal(size=(3, 3))
        truth = float(np.trace(vectors.T @ precision @ vectors))
        lengths = np.linalg.norm(vectors, axis=1)
        steps = {int(row) + 1: StepPair(2 * lengths[row], 2 * lengths[row], 2.0) for row in entered}
        found = row_pairs(factorisation, 9, 8, steps)
        assert sum(one.distance**2 for one in found) <= truth * (1 + 1e-9)
        assert all(one.distance <= one.sensitivity * (1 + 1e-9) for one in found)


def test_whitened_noise_is_independent() -> None:
    for factorisation in (Tree(restart=3, complete=True), Banded(bands=3)):
        whitened = whitening(factorisation, 9) @ noise_matrix(factorisation, 9)
        np.testing.assert_allclose(whitened @ whitened.T, np.eye(9), atol=1e-6)
    np.testing.assert_allclose(whitening(Banded(bands=3), 9), Banded(bands=3).encoder(9).dense, atol=1e-9)


def test_versions_without_their_predecessors_tell_of_no_row() -> None:
    steps = {3: StepPair(1.0, 1.0, 1.0)}
    assert row_pairs(Banded(bands=3), 9, 2, steps) == []
    assert [one.version for one in row_pairs(Banded(bands=2), 9, 5, steps)] == [3, 4]
