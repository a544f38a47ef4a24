"""Runs with Poisson batches: ledger, budgets, and the secrecy of the draws."""

from typing import Any

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.privacy.accounting.accountants import renyi_epsilon, smallest_epsilon
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent
from asyncfl.results.run_tables import clients_table
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

Z, EPOCHS = 1.5, 2
POISSON: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 3, "samples_per_client": 40, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {
        "lr": 0.1, "batch_size": 8, "epochs": EPOCHS, "batches": "poisson", "example_clip": 1.0, "example_noise": Z,
    },
    "protocol": {"kind": "sync", "rounds": 4},
    "privacy": {"kind": "dp_sgd", "noise_multiplier": Z},
}  # fmt: skip


def scenario(**changes: Any) -> Scenario:
    return Scenario.read(POISSON).override(changes)


def releases(tasks: int) -> list[MechanismEvent]:
    """Steps of so many tasks: five an epoch, each with a fifth of the samples."""
    return [MechanismEvent("gaussian", Z, tasks * EPOCHS * 5, 0.2)]


def test_the_ledger_counts_each_step_as_a_sampled_release() -> None:
    ledger = SeedLedger(simulate_seed(scenario(), 0)).ledger.to_pandas()
    rows = ledger[(ledger["holder"] == "client") & (ledger["adversary"] == "server")]
    assert len(rows) == 3
    assert (rows["neighbours"] == "zero_out").all()
    for column in ("claimed_epsilon", "rdp_epsilon"):
        np.testing.assert_allclose(rows[column], renyi_epsilon(releases(4), 1e-5) or 0.0, rtol=1e-9)
    np.testing.assert_allclose(rows["exact_epsilon"], smallest_epsilon(releases(4), 1e-5), rtol=1e-9)
    assert (rows["provable"] == rows["exact_epsilon"]).all()
    assert rows["claim_holds"].all()
    # The same noise on shuffled batches is worth more than twice as much.
    shuffled = SeedLedger(simulate_seed(scenario(**{"training.batches": "shuffled"}), 0)).ledger.to_pandas()
    assert (shuffled.loc[rows.index, "exact_epsilon"] > 2 * rows["exact_epsilon"]).all()


def test_clients_stop_before_the_upload_that_exceeds_their_budget() -> None:
    limit = (smallest_epsilon(releases(2), 1e-5) + smallest_epsilon(releases(3), 1e-5)) / 2
    run = simulate_seed(scenario(**{"privacy.stop_at": {"epsilon": limit}}), 0)
    assert run.stopped == "every client has spent its budget"
    assert clients_table(run).to_pandas()["aggregated"].tolist() == [2, 2, 2]


def test_a_client_that_stops_early_is_charged_for_its_own_epochs() -> None:
    slow = {"training.deadline_s": 0.5, "world.device": {"kind": "listed", "s_per_sample": [0.001, 0.01, 0.01]}}
    run = simulate_seed(scenario(**slow), 0)
    counts = {one.client: one.release.count for one in run.uploads}
    assert counts == {0: 10, 1: 5, 2: 5}


def test_batches_are_drawn_from_the_seed_of_the_noise() -> None:
    """A live client's noise has a secret seed; the credit needs batches that nobody can draw again."""
    one, other = (Streams(0, noise=noise).generator("poisson_batches", 1, 2).random() for noise in (None, 5))
    assert one != other
