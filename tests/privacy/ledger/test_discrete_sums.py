"""Proven rows of securely aggregated runs, against the exact law of a sum of discrete Gaussians on one number."""

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.privacy.ledger.knowledge import known_releases
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable
from asyncfl.protocol.secure_aggregation import Pairwise
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.results.sums_of_noises import sum_of_noises
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed


def delta_of(law: np.ndarray, shift: int, epsilon: float) -> float:
    """The least delta at which a number with this law, moved by `shift`, is (epsilon, delta) private."""
    moved = np.roll(law, shift)
    return float(np.maximum(law - math.exp(epsilon) * moved, 0.0).sum())


def table(weights: list[float], stds: list[float]) -> UploadTable:
    n = len(weights)
    whole = {name: np.arange(n) for name in ("task", "client")}
    zeros, ones = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    return UploadTable(
        **whole,
        base_version=zeros,
        version=ones,
        weight=np.array(weights),
        laplace=np.zeros(n, dtype=bool),
        std=np.array(stds),
        sensitivity=np.ones(n),
        model_sensitivity=np.ones(n),
        count=ones,
        rate=np.ones(n),
        epsilon=np.full(n, np.inf),
        additive=np.ones(n, dtype=bool),
        copy_of=np.full(n, -1),
    )


def versions(server_std: float = 0.0) -> VersionTable:
    return VersionTable(np.array([0.0, server_std]), False, True, np.inf)


def server(uploads: int, colluders: int = 0) -> AdversaryView:
    """A server of one version that holds no upload."""
    return AdversaryView("server", np.full(uploads, NEVER), np.zeros(2, dtype=np.int64), True, colluders=colluders)


@pytest.mark.parametrize("colluders", [0, 1, 3])
@pytest.mark.parametrize(("std", "shift"), [(4.0, 3), (9.0, 9), (6.5, 13)])
def test_the_renyi_epsilon_of_a_sum_holds_for_its_exact_law(std: float, shift: int, colluders: int) -> None:
    """Five draws of N_Z(0, s^2), of which colluders tell some; one client moves its integer by `shift`."""
    numbers = np.arange(-400, 401)
    one = np.exp(-(numbers**2) / (2 * std**2))
    law = one / one.sum()
    total = law
    for _ in range(5 - colluders - 1):
        total = np.convolve(total, law, mode="same")
    sent = table([1.0] * 5, [std / shift] * 5)  # in units of the client's sensitivity
    spent = known_releases(sent, versions(), server(5, colluders)).spent(1e-5)
    assert delta_of(total, shift, float(spent.rdp[0])) <= 1e-5
    # It is not far from the truth either: a third less would be too little.
    assert delta_of(total, shift, float(spent.rdp[0]) / 1.5) > 1e-5


def test_colluders_tell_the_noise_that_hides_most() -> None:
    """By hand: variances 1, 4, 9 and 16. To two colluders client 0 is hidden by 1 + 4, client 3 by 16 + 1."""
    sent = table([1.0] * 4, [1.0, 2.0, 3.0, 4.0])
    found = known_releases(sent, versions(), server(4, 2))
    assert dict(zip(found.holder.tolist(), np.square(found.sigma).round(9).tolist(), strict=True)) == {
        0: 5.0,
        1: 5.0,
        2: 10.0,
        3: 17.0,
    }
    alone = known_releases(sent, versions(), server(4, 3))
    assert np.sort(alone.sigma).tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_only_even_sums_of_wide_noise_are_proven() -> None:
    grid = Pairwise(bits=8, range=127.0)  # a step of 1
    cases: list[tuple[UploadTable, float, bool]] = [
        (table([0.5, 0.5], [5.0, 5.0]), 0.0, True),
        (table([0.4, 0.6], [5.0, 5.0]), 0.0, False),
        (table([0.5, 0.5], [5.0, 6.0]), 0.0, False),
        (table([0.5, 0.5], [3.9, 3.9]), 0.0, False),
        (table([0.5, 0.5], [5.0, 5.0]), 1.0, False),
    ]
    for sent, server_std, proven in cases:
        assert sum_of_noises(grid, sent, versions(server_std)) == (True, proven)
    assert sum_of_noises(None, cases[1][0], versions()) == (False, True)
    assert sum_of_noises(grid, table([0.5, 0.5], [0.0, 0.0]), versions(1.0)) == (False, True)


def test_uneven_sums_are_proven_by_each_clients_own_noise() -> None:
    """Stale updates weigh less: epsilon is that of the sum, and what is proven that of an upload by itself."""
    base: dict[str, Any] = {
        "data": {"dataset": "mnist", "clients": 5, "samples_per_client": 4, "source": "embedded", "test_samples": 10},
        "model": {"kind": "mlp", "hidden": []},
        "protocol": {"kind": "fedbuff", "rounds": 4, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}},
        "privacy": {"kind": "dp_fedavg", "clip_norm": 0.1, "noise_multiplier": 4.0},
        "evaluation": {"train_every": 0, "test_every": 0},
    }
    secure = {"kind": "lightsecagg", "threshold": 3, "range": 0.1}
    run = simulate_seed(Scenario.read(base).override({"protocol.secure_aggregation": secure}), 0)
    clear = simulate_seed(Scenario.read(base), 0)

    def rows(of: Any) -> Any:
        ledger = SeedLedger(of).ledger.to_pandas()
        return ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")].set_index("client")

    hidden, held = rows(run), rows(clear)
    assert (hidden["exact_epsilon"] < hidden["provable"]).all()
    # The same tasks are in both runs: the clock is instant.
    aggregated = hidden["releases"] > 0
    assert (hidden["provable"][aggregated] <= held["rdp_epsilon"][aggregated] * (1 + 1e-9)).all()
