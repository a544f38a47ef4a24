"""Credit for being drawn: published models, to an adversary that does not see who was drawn.

The truth is computed without the package's accounting: the hockey-stick divergence of explicit mixtures, integrated.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from asyncfl.base.errors import ScenarioError
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed

DELTA = 1e-5
CLIENTS, EXPECTED, Z = 20, 4, 1.2
Q = EXPECTED / CLIENTS
PRIVATE = {"kind": "dp_fedavg", "noise_multiplier": Z, "clip_norm": 0.5, "noise_at": "server", "delta": DELTA}
SYNC = {"kind": "sync", "rounds": 2, "participants": EXPECTED, "weighting": "uniform", "divide_by": "expected"}
DRAWN = {**SYNC, "selection": {"kind": "poisson"}}


def description(**more: Any) -> dict[str, Any]:
    return {
        "data": {"dataset": "digits", "clients": CLIENTS, "samples_per_client": 10},
        "model": {"kind": "linear"},
        "training": {"lr": 0.1, "batch_size": 10},
        "protocol": DRAWN,
        "privacy": {**PRIVATE, "neighbours": "zero_out"},
        **more,
    }


def rows_of(seed: int = 0, **more: Any) -> pd.DataFrame:
    run = simulate_seed(Scenario.read(description(**more)), seed)
    found: pd.DataFrame = SeedLedger(run).ledger.to_pandas()
    return found[found["holder"] == "client"]


def exact_of(rows: pd.DataFrame, adversary: str) -> np.ndarray[Any, Any]:
    return rows[rows["adversary"] == adversary]["exact_epsilon"].to_numpy()


def mixture(at: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Density of one version along the client's update, in units of its clip norm: drawn with probability Q."""
    return lambda x: (1 - Q) * norm.pdf(x, 0, Z) + Q * norm.pdf(x, at, Z)


def true_epsilon(one: float, other: float, versions: int) -> float:
    """Smallest epsilon of `versions` releases, for a client whose update is `one` or `other` clip norms long."""
    x = np.linspace(-9 * Z, 9 * Z + 1, 4001)
    dx = x[1] - x[0]
    p, q = (mixture(at)(x) for at in (one, other))
    mass = (np.outer(p, p).ravel(), np.outer(q, q).ravel()) if versions == 2 else (p, q)
    cell = dx**versions

    def excess(epsilon: float) -> float:
        ways = (mass, mass[::-1])
        return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) * cell for a, b in ways) - DELTA

    return float(brentq(excess, 0, 30, xtol=1e-6))


@pytest.mark.parametrize(("neighbours", "pair"), [("zero_out", (1.0, 0.0)), ("replace", (1.0, -1.0))])
@pytest.mark.parametrize("versions", [1, 2])
def test_the_epsilon_of_the_public_is_that_of_the_explicit_mixtures(
    neighbours: str, pair: tuple[float, float], versions: int
) -> None:
    protocol = {**DRAWN, "rounds": versions}
    rows = rows_of(protocol=protocol, privacy={**PRIVATE, "neighbours": neighbours})
    public = exact_of(rows, "public")
    assert len(public) == CLIENTS
    # Whoever was drawn: that is what is hidden.
    assert (public == public[0]).all()
    truth = true_epsilon(*pair, versions)
    assert truth - 1e-3 <= public[0] <= truth + 0.02
    uncredited = rows_of(protocol={**protocol, "selection": {"kind": "uniform"}}, privacy=PRIVATE)
    assert public[0] < 0.8 * exact_of(uncredited, "public").max()


def test_who_sees_the_draws_has_no_credit() -> None:
    tapped = {"tap": {"downlink": True}, "availability": {"kind": "always"}}
    rows = rows_of(world=tapped)
    assert np.isinf(exact_of(rows, "server").max())
    assert exact_of(rows, "eavesdropper").max() > 1.2 * exact_of(rows, "public").max()
    assert not rows["flags"].str.contains("no credit").any()


def test_curious_clients_know_their_own_draws_alone() -> None:
    rows = rows_of(privacy={**PRIVATE, "neighbours": "zero_out", "curious": [0, 1, 2, 3, 4, 5, 6, 7]})
    curious = rows[rows["adversary"] == "curious"]
    assert sorted(curious["client"]) == [*range(8, CLIENTS)]
    assert 0 < curious["exact_epsilon"].max() <= exact_of(rows, "public").max()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"protocol": {**DRAWN, "divide_by": "arrived"}}, "updates are divided by their number"),
        ({"privacy": {**PRIVATE, "noise_at": "client"}}, "not all noise is Gaussian noise of the server"),
        ({"privacy": {**PRIVATE, "adaptive": {}}}, "the clip norm adapts"),
        ({"defence": {"rule": {"kind": "median"}}}, "weights depend on data"),
        ({"world": {"dropout": 0.5}}, "were lost, late or left out"),
        (
            {"world": {"uplink": {"loss": {"kind": "independent", "probability": 0.4}, "retransmissions": 0}}},
            "lost|drawn again",
        ),
        (
            {"world": {"availability": {"kind": "alternating", "on_s": 0.02, "off_s": 0.02}}},
            "a client was offline",
        ),
        ({"threats": {"attackers": 2, "attack": {"kind": "label_flip"}}}, "attackers may send what they computed"),
    ],
)
def test_what_breaks_the_independence_costs_the_credit_and_is_told(more: dict[str, Any], reason: str) -> None:
    rows = rows_of(**more)
    public = rows[rows["adversary"] == "public"]
    assert public["flags"].str.contains(f"no credit for being drawn: .*(?:{reason})").all()


def test_a_guarantee_about_samples_has_no_credit_for_the_draw_of_clients() -> None:
    rows = rows_of(privacy={"kind": "nbafl", "epsilon": 10.0, "clip_norm": 1.0})
    public = rows[rows["adversary"] == "public"]
    assert public["flags"].str.contains("no credit for being drawn: the guarantee is not about a client").all()


def test_each_client_is_drawn_by_itself() -> None:
    """Sizes of cohorts are binomial, pairs of clients are independent, and nobody's coin depends on others."""
    protocol = {**DRAWN, "rounds": 400}
    run = simulate_clock(Scenario.read(description(protocol=protocol)), 0)
    tasks = run.tasks.to_pandas()
    drawn = np.zeros((400, CLIENTS))
    drawn[tasks["base_version"], tasks["client"]] = 1
    sizes = drawn.sum(axis=1)
    spread = math.sqrt(CLIENTS * Q * (1 - Q))
    assert abs(sizes.mean() - EXPECTED) < 4 * spread / math.sqrt(400)
    assert 0.8 * spread < sizes.std() < 1.2 * spread
    correlations = np.corrcoef(drawn.T)[np.triu_indices(CLIENTS, 1)]
    assert np.abs(correlations).max() < 5 / math.sqrt(400)
    made = [row["participants"] for row in run.rounds[1:]]
    assert made == sizes.astype(int).tolist()


def test_updates_are_divided_by_the_expected_number() -> None:
    run = simulate_seed(Scenario.read(description(protocol={**DRAWN, "rounds": 6})), 0)
    weights = run.tasks.to_pandas().query("fate == 'aggregated'")["weight"]
    assert set(weights) == {1 / EXPECTED}


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({**DRAWN, "over_selection": 1.5}, "over_selection: must be 1 where each client is drawn by itself"),
        ({**DRAWN, "open": {"kind": "quorum", "share": 0.5}}, "selection: must draw a fixed number of clients"),
        ({**DRAWN, "kind": "fedbuff", "buffer": 2}, "divide_by|selection"),
        ({**DRAWN, "participants": 0.2}, "participants: must be a number of clients with protocol.divide_by expected"),
        ({**DRAWN, "weighting": "samples"}, "weighting: must be uniform"),
    ],
)
def test_draws_and_divisors_that_make_no_sense_are_refused(protocol: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.read(description(protocol=protocol))


def test_twins_which_repeat_the_draws_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"protocol.selection: .*whose secrecy the credit needs"):
        Scenario.read(description(evaluation={"audit": {}}))


def test_a_cohort_of_nobody_makes_a_version_of_noise_alone() -> None:
    """Another draw would tell that this one was empty, and the rate would be higher than Q."""
    protocol = {**DRAWN, "participants": 1, "rounds": 30}
    data = {"dataset": "digits", "clients": 3, "samples_per_client": 10}
    run = simulate_seed(Scenario.read(description(protocol=protocol, data=data)), 0)
    sizes = [row["participants"] for row in run.rounds[1:]]
    assert len(sizes) == 30
    # (2/3)^3 of the cohorts
    assert 3 <= sizes.count(0) <= 16
    assert "cohort_repeated" not in set(run.events["kind"].to_pylist())
    stds = [row["sigma_d"] for row in run.rounds[1:]]
    assert min(stds) == pytest.approx(max(stds)) == pytest.approx(Z * 0.5)
    rows = SeedLedger(run).ledger.to_pandas().query("holder == 'client' and adversary == 'public'")
    assert (rows["releases"] == 30).all()
    assert not rows["flags"].str.contains("no credit").any()


def test_a_client_of_two_is_hidden_as_the_law_says() -> None:
    """Whether the other was drawn or not, and with it nobody: the credit does not condition on that."""
    data = {"dataset": "digits", "clients": 2, "samples_per_client": 10}
    found = set()
    for seed in range(4):
        found |= set(exact_of(rows_of(seed, protocol={**DRAWN, "participants": 1}, data=data), "public"))
    assert len(found) == 1
    x = np.linspace(-9 * Z, 9 * Z + 1, 4001)
    p, q = 0.5 * norm.pdf(x, 0, Z) + 0.5 * norm.pdf(x, 1, Z), norm.pdf(x, 0, Z)
    both = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    cell = (x[1] - x[0]) ** 2

    def excess(epsilon: float) -> float:
        return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) * cell for a, b in (both, both[::-1])) - DELTA

    truth = brentq(excess, 0, 30)
    assert truth - 1e-3 <= found.pop() <= truth + 0.02


def test_what_is_credited_does_not_depend_on_whether_anybody_was_drawn() -> None:
    protocol = {**DRAWN, "participants": 1, "rounds": 1}
    data = {"dataset": "digits", "clients": 3, "samples_per_client": 10}
    found, sizes = set(), set()
    for seed in range(8):
        run = simulate_seed(Scenario.read(description(protocol=protocol, data=data)), seed)
        sizes.add(run.rounds[1]["participants"])
        rows = SeedLedger(run).ledger.to_pandas().query("holder == 'client' and adversary == 'public'")
        found |= set(rows["exact_epsilon"].round(9))
    assert 0 in sizes
    assert len(sizes) > 1
    assert len(found) == 1
