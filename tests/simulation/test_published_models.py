"""Noise and epsilon of published models, counted by hand in whole seeds, synchronous and asynchronous."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun

DELTA = 1e-5
OFTEN: dict[str, Any] = {
    "data.clients": 6,
    "world": {"device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 2.0}},
    "protocol": {
        "kind": "buffered",
        "rounds": 8,
        "buffer": 4,
        "dispatch": {"kind": "constant", "in_flight": 6},
        "staleness": {"kind": "constant"},
    },
}
"""Devices so different that a fast client is in a version up to three times."""
STALE = {**OFTEN, "protocol": {**OFTEN["protocol"], "staleness": {"kind": "polynomial"}}}
DP_FEDAVG = {"kind": "dp_fedavg", "noise_multiplier": 1.0, "neighbours": "replace", "delta": DELTA}
GAUSSIAN = {"kind": "gaussian", "epsilon": 2.0}


def run_of(scenario: Scenario, privacy: dict[str, Any], changes: dict[str, Any]) -> tuple[SeedRun, dict[str, Any]]:
    """A seed, and the ledger's row of all models, which the public holds."""
    own = scenario.override({**changes, "privacy": privacy})
    run = simulate_seed(own, 0)
    rows = SeedLedger(run).ledger.to_pylist()
    (row,) = [one for one in rows if (one["holder"], one["adversary"]) == ("model", "public")]
    return run, row


def entries(run: SeedRun) -> dict[int, list[tuple[int, float, float]]]:
    """Version -> (client, weight in the aggregate, its noise) of each update in it."""
    judged = run.events.filter(pc.equal(run.events["kind"].cast(pa.string()), "aggregated"))
    weight = dict(zip(judged["task"].to_pylist(), judged["weight"].to_pylist(), strict=True))
    found = defaultdict(list)
    for version, model in run.models.items():
        for upload in model.uploads:
            found[version].append((upload.client, weight[upload.task], upload.release.std))
    return found


def by_hand(run: SeedRun, distance: float, rate: float = 1.0, server: float | None = None) -> float:
    """Return the sum over versions of (sensitivity/noise)^2 of the client for which it is largest.

    `distance`: greatest distance of two payloads; `server`: standard deviation of the server's noise, None for the
    recorded one.
    """
    added = {row["version"]: row["sigma_d"] if server is None else server for row in run.rounds}
    mu = np.zeros(len(run.sizes))
    for version, updates in entries(run).items():
        own = np.zeros(len(run.sizes))
        for client, weight, _ in updates:
            own[client] += rate * weight * distance
        variance = sum((rate * weight * std) ** 2 for _, weight, std in updates) + added[version] ** 2
        mu += own**2 / variance
    return float(mu.max())


def test_noise_for_one_update_of_a_client_is_too_little_for_three(scenario: Scenario) -> None:
    run, row = run_of(scenario, {**DP_FEDAVG, "noise_at": "server"}, OFTEN)
    times = {version: [client for client, _, _ in updates] for version, updates in entries(run).items()}
    most = {version: max(map(clients.count, clients)) for version, clients in times.items()}
    assert max(most.values()) == 3
    # With S/n, as for versions in which each client is once: 39.38 is claimed.
    assert exact_epsilon(by_hand(run, 2.0, server=1 / 4), DELTA) == pytest.approx(100.30, abs=5e-3)
    assert row["claimed_epsilon"] == pytest.approx(exact_epsilon(8 * 2.0**2, DELTA))
    assert row["claimed_epsilon"] == pytest.approx(39.38, abs=5e-3)
    # The server adds it as many times.
    assert [one["sigma_d"] for one in run.rounds[1:]] == pytest.approx([most[v] / 4 for v in range(1, 9)])
    assert row["squared_mu"] == pytest.approx(by_hand(run, 2.0))
    assert row["exact_epsilon"] == pytest.approx(exact_epsilon(by_hand(run, 2.0), DELTA))
    assert (row["status"], row["claim_holds"], row["releases"]) == ("proven", True, 8)


@pytest.mark.parametrize("changes", [OFTEN, STALE], ids=["often", "stale"])
def test_the_noise_of_clients_hides_a_frequent_or_fresh_client_less(
    scenario: Scenario, changes: dict[str, Any]
) -> None:
    run, row = run_of(scenario, DP_FEDAVG, changes)
    assert row["squared_mu"] == pytest.approx(by_hand(run, 2.0))
    assert row["exact_epsilon"] == pytest.approx(exact_epsilon(by_hand(run, 2.0), DELTA))
    # The claim is for versions of four different clients with equal weights.
    assert row["claimed_epsilon"] == pytest.approx(exact_epsilon(8 * 4.0 / 4, DELTA))
    assert row["exact_epsilon"] > 2 * row["claimed_epsilon"]
    assert (row["status"], row["claim_holds"]) == ("heuristic", False)


def test_server_mechanisms_cover_the_most_frequent_client(scenario: Scenario) -> None:
    privacy = {"kind": "mechanisms", "server": {**GAUSSIAN, "composition": "analytic", "releases": "rounds"}}
    for changes in (OFTEN, STALE):
        run, row = run_of(scenario, privacy, changes)
        assert row["squared_mu"] == pytest.approx(by_hand(run, 2.0))
        assert row["exact_epsilon"] <= 2.0 * (1 + 1e-9)
        assert (row["status"], row["claim_holds"]) == ("proven", True)


@pytest.mark.parametrize("sensitivity", ["2C", "2C/N"])
def test_nbafls_server_noise_covers_the_most_frequent_client(scenario: Scenario, sensitivity: str) -> None:
    privacy = {
        "kind": "nbafl",
        "epsilon": 6.0,
        "clip_norm": 5.0,
        "sensitivity": sensitivity,
        "composition": "analytic",
        "b_rule": "none",
        "exposures": 2,
    }
    for changes in (OFTEN, STALE):
        run, row = run_of(scenario, privacy, changes)
        assert row["squared_mu"] == pytest.approx(by_hand(run, 10.0))
        assert 3.0 < row["exact_epsilon"] <= 6.0 * (1 + 1e-9)
        assert (row["status"], row["claim_holds"]) == ("proven", True)


@pytest.mark.parametrize(
    ("privacy", "distance"),
    [
        (DP_FEDAVG, 2.0),
        ({**DP_FEDAVG, "noise_at": "server"}, 2.0),
        ({"kind": "mechanisms", "client": GAUSSIAN, "server": GAUSSIAN}, 2.0),
        ({"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0, "sensitivity": "2C"}, 10.0),
    ],
)
def test_a_server_rate_changes_no_epsilon(scenario: Scenario, privacy: dict[str, Any], distance: float) -> None:
    rows, added = [], []
    for rate in (0.5, 1.0, 2.0):
        run, row = run_of(scenario, privacy, {"data.clients": 6, "protocol.server_rate": rate})
        assert row["squared_mu"] == pytest.approx(by_hand(run, distance, rate))
        rows.append({name: row[name] / rate for name in ("sigma", "sensitivity")} | {"exact": row["exact_epsilon"]})
        added.append(run.rounds[1]["sigma_d"] / rate)
    assert rows[0] == pytest.approx(rows[1])
    assert rows[2] == pytest.approx(rows[1])
    assert added == pytest.approx([added[1]] * 3)
    assert (added[0] > 0) == (privacy != DP_FEDAVG)
    if privacy == DP_FEDAVG:  # z = 1, K = 6, T = 3
        assert rows[0]["exact"] == pytest.approx(exact_epsilon(3 * (2 / 6) ** 2 / (1 / 6), DELTA))
        assert rows[0]["exact"] == pytest.approx(6.57, abs=5e-3)


@pytest.mark.parametrize("kind", ["buffered", "fedbuff"])
@pytest.mark.parametrize("changes", [OFTEN, STALE])
def test_the_ledger_uses_actual_weights_and_rates(scenario: Scenario, changes: dict[str, Any], kind: str) -> None:
    protocol = {**changes["protocol"], "kind": kind, "server_rate": 0.7, "divisor": "weight_sum"}
    for noise_at in ("client", "server"):
        run, row = run_of(scenario, {**DP_FEDAVG, "noise_at": noise_at}, {**changes, "protocol": protocol})
        assert row["squared_mu"] == pytest.approx(by_hand(run, 2.0, rate=0.7))


def test_clients_of_many_samples_weigh_more(scenario: Scenario) -> None:
    skewed = {"data.partition": {"kind": "quantity", "min_samples": 5}}
    run, row = run_of(scenario, {**DP_FEDAVG, "noise_at": "server"}, skewed)
    share = run.sizes.max() / run.sizes.sum()
    assert share > 0.21
    assert [one["sigma_d"] for one in run.rounds[1:]] == pytest.approx([share] * 3)
    assert row["sensitivity"] == pytest.approx(2 * share)
    assert (row["status"], row["claim_holds"]) == ("heuristic", None)


def test_clients_that_are_not_drawn_spend_nothing(scenario: Scenario) -> None:
    drawn = {"protocol": {"kind": "sync", "rounds": 6, "participants": 2}}
    run, row = run_of(scenario, {**DP_FEDAVG, "noise_at": "server"}, drawn)
    times = np.bincount([client for updates in entries(run).values() for client, _, _ in updates])
    assert row["squared_mu"] == pytest.approx(4.0 * times.max())
    assert row["releases"] == times.max() < 6


FEW = {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
GAUSSIAN_1 = {"kind": "gaussian", "epsilon": 1.0}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 3}, FEW])
@pytest.mark.parametrize(
    ("client", "server"),
    [(None, LAPLACE), (GAUSSIAN_1, None), (LAPLACE, None), (GAUSSIAN_1, LAPLACE), (LAPLACE, LAPLACE)],
)
def test_any_mechanism_runs_in_any_protocol(
    scenario: Scenario, protocol: dict[str, Any], client: Any, server: Any
) -> None:
    private = {"kind": "mechanisms", "clip": {"norm": 0.01}, "client": client, "server": server}
    run = simulate_seed(scenario.override({"privacy": private, "protocol": protocol}), 0)
    assert run.rounds[-1]["version"] == protocol["rounds"]
    rows = run.rounds[1:]
    n = rows[0]["participants"]
    assert all(row["sigma_u"] > 0 for row in rows) == (client is not None)
    # Asynchronous, a client may have both updates of a version, or a stale one.
    unit = 0.0 if server is None else np.sqrt(2) * 2 * 0.01
    held = [[np.array(column) for column in zip(*updates, strict=True)] for updates in entries(run).values()]
    heaviest = [np.bincount(one[0], one[1]).max() for one in held] if protocol is FEW else [1 / n] * 3
    assert [row["sigma_d"] for row in rows] == pytest.approx([unit * weight for weight in heaviest])
    assert {one.release.distribution for one in run.uploads} == {"laplace" if client is LAPLACE else "gaussian"}
    if client is not None:
        assert {one.release.epsilon for one in run.uploads} == {1.0}


def test_an_adaptive_clip_norm_is_in_the_table_of_rounds(scenario: Scenario) -> None:
    private = {"kind": "dp_fedavg", "noise_multiplier": 0.1, "clip_norm": 0.001, "adaptive": {"learning_rate": 1.0}}
    run = simulate_seed(scenario.override({"privacy": private, "protocol.rounds": 5}), 0)
    norms = [row["clip_norm"] for row in run.rounds[1:]]
    assert norms[0] == 0.001
    assert norms[-1] > 3 * norms[0]
    assert [one.release.multiplier for one in run.uploads] == pytest.approx([0.05] * 25)


def test_dp_sgd_draws_its_noise_in_training(scenario: Scenario) -> None:
    private = {"kind": "dp_sgd", "clip_norm": 0.5, "noise_multiplier": 2.0}
    training = {"training.example_clip": 0.5, "training.example_noise": 2.0, "training.epochs": 2}
    run, again = (simulate_seed(scenario.override({"privacy": private, **training}), 0) for _ in range(2))
    assert list(run.rounds) == list(again.rounds)
    assert {(one.release.std, one.release.sensitivity, one.release.count) for one in run.uploads} == {(1.0, 1.0, 2)}
    assert all(row["sigma_u"] == 0 for row in run.rounds)
    clean = simulate_seed(scenario.override({"training.epochs": 2}), 0)
    assert run.rounds[-1]["train_loss"] != clean.rounds[-1]["train_loss"]
