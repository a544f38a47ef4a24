"""Per-client budgets in whole seeds: the ledger, the table of rounds, and the control of equal spend."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl import simulation
from asyncfl.privacy.flags import CLASSICAL
from asyncfl.results.run_tables import rounds_table
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.round_recorder import UPLOAD_EPSILONS as COLUMNS
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.simulation.simulate import SimulatedRuns

ADAPTIVE = {"kind": "adaptive", "budgets": [1, 1, 2, 2, 3]}
DROPPING = {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}


def run_of(scenario: Scenario, **privacy: Any) -> tuple[SeedRun, SeedLedger]:
    private = scenario.override({"privacy": {**ADAPTIVE, **privacy}})
    run = simulate_seed(private, 0)
    return run, SeedLedger(run)


def of_server(books: SeedLedger) -> pd.DataFrame:
    ledger = books.ledger.to_pandas()
    return ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")].set_index("client")


def budgets_of(run: SeedRun) -> dict[int, list[float]]:
    """Client -> budgets of its uploads."""
    made: dict[int, list[float]] = {}
    for upload in run.uploads:
        made.setdefault(upload.client, []).append(upload.release.epsilon)
    return made


def test_each_client_s_row_claims_its_own_budget(scenario: Scenario) -> None:
    run, books = run_of(scenario, adjustment="none")
    rows = of_server(books)
    assert rows["claimed_epsilon"].tolist() == [1, 1, 2, 2, 3]
    assert rows["naive_epsilon"].tolist() == [3, 3, 6, 6, 9]
    rounds = books.with_epsilons(rounds_table(run)).to_pandas()
    assert rounds["epsilon_naive_max"].tolist() == [0, 3, 6, 9], "of all clients the largest"
    ledger = books.ledger.to_pandas()
    heard = ledger[ledger["adversary"] == "eavesdropper"]
    assert heard["claimed_epsilon"].tolist()[:5] == [1, 1, 2, 2, 3], (
        "nothing was overheard, and the promise is the same"
    )
    assert heard["claim_holds"].all()


def test_an_adjusted_budget_claims_the_largest_and_is_flagged_from_there(scenario: Scenario) -> None:
    learning = scenario.override({"training.lr": 0.2, "data.samples_per_client": 200})
    run, books = run_of(learning, budgets=[8, 8, 4, 4, 0.5], k=10, sensitivity="2M/n")
    rows, made = of_server(books), budgets_of(run)
    assert rows["claimed_epsilon"].tolist() == [max(made[client]) for client in range(5)]
    assert rows["naive_epsilon"].tolist() == pytest.approx([sum(made[client]) for client in range(5)])
    past = [max(made[client]) > 8.42 for client in range(5)]
    assert past[:2] == [True, True]
    assert [CLASSICAL in flags for flags in rows["flags"]] == past
    assert not all(past)


def test_unused_uploads_have_their_clients_own_budgets(scenario: Scenario) -> None:
    private = scenario.override(
        {"protocol": DROPPING, "protocol.max_staleness": 0, "privacy": {**ADAPTIVE, "adjustment": "none"}}
    )
    run = simulate_seed(private, 0)
    rows = of_server(SeedLedger(run))
    assert rows["releases"].sum() > len(run.uploads), "some were never trained"
    assert (rows["naive_epsilon"] == rows["releases"] * np.array([1, 1, 2, 2, 3])).all()
    assert rows["squared_mu"].to_numpy() == pytest.approx(rows["naive_epsilon"] * [1, 1, 2, 2, 3] / 4.844805214**2)


def test_the_table_of_rounds_has_the_budgets_of_aggregated_uploads(scenario: Scenario) -> None:
    run, _ = run_of(scenario)
    rounds = rounds_table(run).to_pandas()
    assert rounds.loc[0, list(COLUMNS)].isna().all()
    for version in (1, 2, 3):
        uploads = run.models[version].uploads
        epsilons = [one.release.epsilon for one in uploads]
        expected = [np.mean(epsilons), min(epsilons), max(epsilons), sum(epsilons)]
        expected.append(np.mean([one.release.std for one in uploads]))
        assert rounds.loc[version, list(COLUMNS)].tolist() == pytest.approx(expected)
    assert rounds.loc[1, "budget_sum"] == 9
    assert rounds.loc[3, "budget_sum"] != 9
    without = scenario.override({"privacy": {"kind": "nbafl", "epsilon": 60}})
    assert not set(COLUMNS) & set(rounds_table(simulate_seed(without, 0)).column_names)


@pytest.mark.parametrize("spend", ["naive", "rdp"])
def test_the_control_spends_as_much_as_the_adaptive_run(scenario: Scenario, spend: str) -> None:
    power = 1 if spend == "naive" else 2
    adaptive, control = budgets_of(run_of(scenario)[0]), budgets_of(run_of(scenario, equal_spend=spend)[0])
    for client in range(5):
        assert len(set(adaptive[client])) > 1, "the reference's budgets change"
        assert len(set(control[client])) == 1, "the control's do not"
        assert len(control[client]) == len(adaptive[client]) == 3
        spent = [sum(epsilon**power for epsilon in made[client]) for made in (adaptive, control)]
        assert spent[1] == pytest.approx(spent[0])


def test_a_reference_is_simulated_once_for_the_controls_that_share_their_prior_runs(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior, begun = SimulatedRuns(), []
    module = simulation.simulate
    simulate = module.simulate_seed
    monkeypatch.setattr(module, "simulate_seed", lambda *of, **how: begun.append(of) or simulate(*of, **how))
    for spend in ("naive", "rdp"):
        simulate(scenario.override({"privacy": {**ADAPTIVE, "equal_spend": spend}}), 0, prior=prior)
    assert len(begun) == 1
    simulate(scenario.override({"privacy": {**ADAPTIVE, "equal_spend": "rdp"}}), 0)
    assert len(begun) == 2, "one that is asked for by itself knows nothing of them"


def test_epsilon_of_invalid_noise_is_the_same_in_all_tables(scenario: Scenario) -> None:
    client = {"kind": "laplace", "epsilon": 1.0, "sensitivity_from": "seed_literal"}
    private = scenario.override({"privacy": {"kind": "mechanisms", "clip": {"norm": 0.5}, "client": client}})
    run = simulate_seed(private, 0)
    books = SeedLedger(run)
    rows = of_server(books)
    assert run.context is not None
    once = 2 * np.sqrt(run.context.n_parameters)
    for name in ("basic", "advanced", "rdp", "exact"):
        assert rows[f"{name}_epsilon"].to_numpy() == pytest.approx(np.full(5, 3 * once)), name
    assert rows["claimed_epsilon"].tolist() == [1] * 5
    assert not rows["claim_holds"].any()
    rounds = books.with_epsilons(rounds_table(run)).to_pandas()
    for name in ("basic", "rdp", "exact"):
        assert rounds[f"epsilon_{name}_max"].tolist() == pytest.approx([0, once, 2 * once, 3 * once]), name
    assert rounds["epsilon_naive_max"].tolist() == [0, 1, 2, 3]
    spending = books.spending.to_pandas().query("holder == 'largest' and adversary == 'server'")
    assert spending["exact_epsilon"].tolist() == rounds["epsilon_exact_max"].tolist()
