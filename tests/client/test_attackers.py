"""Attackers: what they see, send, and can predict of the server."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, Attackers
from asyncfl.client.attack import CraftUploads
from asyncfl.client.batch import Batch
from asyncfl.privacy import Contribution, Noise
from asyncfl.threats import Attack, AttackView, Threats

CLIENTS, PARAMETERS = 6, 3


def crafted(
    attackers: Attackers,
    rows: np.ndarray,
    assignments: list[Assignment],
    bad: np.ndarray,
    current: np.ndarray,
    std: float = 0.0,
    epochs: tuple[int | None, ...] = (None,) * CLIENTS,
) -> Batch:
    """A batch after the attackers' stage. `std`: of the noise that follows; `epochs`: done, of ten."""
    batch = Batch(assignments, rows, 0, current)
    batch.attacked, batch.std = bad, np.full(CLIENTS, std)
    batch.noises = [Noise(0.1)] * CLIENTS
    batch.contributions = [Contribution(client, 4, epochs=one) for client, one in enumerate(epochs)]
    layout = SimpleNamespace(layers=[SimpleNamespace(start=0)])
    facts: Any = SimpleNamespace(
        training=SimpleNamespace(epochs=10), data=SimpleNamespace(classes=0), learner=SimpleNamespace(layout=layout)
    )
    CraftUploads(facts, lambda client, models: models[:, 0]).craft(attackers, batch)
    return batch


class Asking(Attack):
    """Predicts the aggregation of twice its update, and sends it."""

    kind: str = "tests:Asking"

    @property
    def rehearses(self) -> bool:
        return True

    @property
    def sees(self) -> Any:
        return "buffer"

    def craft(self, view: AttackView) -> np.ndarray:
        assert view.rehearse is not None
        answer = view.rehearse(2 * view.honest)
        HEARD.append(answer)
        return 2 * view.honest


HEARD: list[Any] = []


@pytest.mark.parametrize("std", [0.0, 0.5])
def test_predictions_include_the_attackers_noise_and_false_scores(std: float) -> None:
    HEARD.clear()
    threats = Threats(attack=Asking(), attackers=2)
    attackers = Attackers(threats, CLIENTS, 10, Streams(0))
    asked: list[Any] = []

    def server(models: Any, upload_std: Any, work: Any, scores: Any) -> tuple[np.ndarray, np.ndarray]:
        tried = np.arange(2.0)[:, None] * np.ones((2, PARAMETERS))
        told = [scores(client, tried) for client in range(CLIENTS)]
        asked.append((models.copy(), upload_std, work, told))
        return np.arange(CLIENTS) % 2 == 0, np.full(PARAMETERS, 7.0, np.float32)

    attackers.server = server
    base = np.full(PARAMETERS, 0.25, np.float32)
    assignments = [Assignment(20 + client, client, 0, base, turn=client) for client in range(CLIENTS)]
    rows = base + np.arange(1, CLIENTS + 1, dtype=np.float32)[:, None]
    bad = np.isin(np.arange(CLIENTS), list(attackers.members))
    assert bad.sum() == 2
    honest = rows.copy()
    current = np.ones(PARAMETERS, np.float32)
    batch = crafted(attackers, rows, assignments, bad, current, std, (5, 6, 7, 8, 9, 10))
    assert batch.copy_of is None
    assert batch.computed_from == tuple(20 + client for client in np.flatnonzero(~bad))
    np.testing.assert_array_equal(rows[~bad], honest[~bad])
    np.testing.assert_allclose(rows[bad], base + 2 * (honest - base)[bad])
    [(models, upload_std, work, told)] = asked
    np.testing.assert_array_equal(models[~bad], honest[~bad])
    noise = [
        np.float32(std) * Streams(0).generator("attack", client, client).standard_normal(PARAMETERS, dtype=np.float32)
        for client in np.flatnonzero(bad).tolist()
    ]
    np.testing.assert_allclose(models[bad], rows[bad] + noise, atol=1e-6)
    assert (upload_std[0], work[0]) == (0.1, 0.5)
    for client in range(CLIENTS):
        lie = threats.lie(np.arange(2.0), Streams(0).generator("lies", client)) if bad[client] else np.arange(2.0)
        np.testing.assert_array_equal(told[client], lie)
    [answer] = HEARD
    np.testing.assert_array_equal(answer.struck, (np.arange(CLIENTS) % 2 == 0)[bad])
    np.testing.assert_array_equal(answer.moved, np.full(PARAMETERS, 6.0))


def test_without_a_server_attackers_cannot_predict_the_aggregation() -> None:
    class Silent(Asking):
        def craft(self, view: AttackView) -> np.ndarray | None:  # type: ignore[override]
            assert view.rehearse is None
            return None

    attackers = Attackers(Threats(attack=Silent(), attackers=2), CLIENTS, 10, Streams(0))
    base = np.zeros(PARAMETERS, np.float32)
    assignments = [Assignment(client, client, 0, base) for client in range(CLIENTS)]
    rows = np.ones((CLIENTS, PARAMETERS), np.float32)
    bad = np.isin(np.arange(CLIENTS), list(attackers.members))
    assert crafted(attackers, rows, assignments, bad, base).computed_from == ()
    assert (rows == 1).all()
