"""The example of an algorithm from its formula, as a user writes it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import one_seed
from asyncfl.scenario import Scenario
from asyncfl.testing import check_algorithm
from tests.algorithms.test_server_halves import accepted, steps


@pytest.fixture
def fedexp(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    from fedexp import FedExp  # type: ignore[import-not-found]

    return FedExp


def test_orthogonal_updates_make_no_longer_step_than_their_mean(fedexp: Any) -> None:
    """Squares 4 and 4, mean (1, 1): 8 / (2 * 2 * 2) = 1."""
    np.testing.assert_allclose(steps(fedexp(epsilon=0.0), accepted([[2, 0], [0, 2]])), [[1, 1]], rtol=1e-6)


def test_opposed_updates_make_a_longer_step(fedexp: Any) -> None:
    """Squares 16 and 4, mean (1, 0): 20 / (2 * 2 * 1) = 5; with epsilon 1: 2.5."""
    opposed = accepted([[4, 0], [-2, 0]])
    np.testing.assert_allclose(steps(fedexp(epsilon=0.0), opposed), [[5, 0]], rtol=1e-6)
    np.testing.assert_allclose(steps(fedexp(epsilon=1.0), opposed), [[2.5, 0]], rtol=1e-6)


def test_equal_updates_make_the_step_of_fedavg(fedexp: Any) -> None:
    np.testing.assert_allclose(steps(fedexp(), accepted([[3, 1], [3, 1]], rate=0.5)), [[1.5, 0.5]], rtol=1e-6)


def test_it_keeps_the_laws_of_algorithms_and_runs(fedexp: Any, description: dict[str, Any]) -> None:
    check_algorithm(fedexp())
    description["data"]["partition"] = {"kind": "dirichlet", "alpha": 0.1}
    run = one_seed(Scenario.read(description | {"algorithm": {"kind": "fedexp:FedExp"}}), 0)
    plain = one_seed(Scenario.read(description | {"algorithm": {"kind": "fedavg"}}), 0)
    losses = [one.tables["rounds"].to_pandas()["train_loss"] for one in (run, plain)]
    assert losses[0].iloc[-1] < losses[0].iloc[0]
    assert not losses[0].equals(losses[1])
