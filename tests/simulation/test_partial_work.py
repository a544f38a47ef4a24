"""Clients that stop at a deadline and upload the epochs done by then."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import execute
from asyncfl.privacy.accounting.gaussian import exact_epsilon, squared_mu_of
from asyncfl.protocol.event_query import select
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.follow import follow
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.testing import read_recording, recorded_buffers, replay_run

EPOCHS = 4
DESCRIPTION: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 4, "samples_per_client": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 5, "epochs": EPOCHS, "deadline_s": 4.0},
    "protocol": {"kind": "sync", "rounds": 1},
    "world": {"device": {"kind": "listed", "s_per_sample": [0.1, 0.15, 0.4, 0.5]}},
}
"""An epoch takes 1, 1.5, 4 and 5 s, and there are 4 s: for all 4, for 2, for 1 (that just ends), for none."""
DONE = {0: None, 1: 2, 2: 1}
DP_SGD = {
    "privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 2.0},
    "training.example_clip": 1.0,
    "training.example_noise": 2.0,
}


def scenario(**changes: Any) -> Scenario:
    return Scenario.read(DESCRIPTION).override(changes)


def test_slow_clients_stop_at_the_deadline_or_drop_out() -> None:
    run = simulate_clock(scenario(), 0)
    tasks = Tasks.of(run.tasks)
    assert dict(zip(tasks.client.tolist(), (tasks.left_s - tasks.training_started_s).tolist(), strict=True)) == {
        0: pytest.approx(4.0),
        1: 4.0,
        2: 4.0,
        3: 4.0,
    }
    told = select(run.events, kinds=["trained", "dropped_out"])
    assert dict(zip(told["client"].to_pylist(), told["detail"].to_pylist(), strict=True)) == {
        0: "",
        1: "2 of 4 epochs",
        2: "1 of 4 epochs",
        3: "no epoch by its deadline",
    }
    assert (run.fates[Fate.AGGREGATED], run.fates[Fate.DROPPED_OUT]) == (3, 1)
    gone = int(tasks.task[tasks.client == 3][0])
    [said] = [step.what for step in follow(run.events, run.tasks, gone, 0).steps if step.event == "dropped_out"]
    assert said == "no epoch by its deadline"


def test_an_attacker_that_is_faster_has_done_more() -> None:
    """An epoch takes an attacker half as long: 0.5, 0.75, 2 and 2.5 s."""
    flooding = {"attack": {"kind": "flooding", "times": 2}, "attackers": 3}
    run = simulate_seed(scenario(threats=flooding), 0)
    done = {client: one.contribution.epochs or EPOCHS for client, one in uploads(run).items()}
    twice = {0: 4, 1: 4, 2: 2, 3: 1}
    attackers = [client for client, one in uploads(run).items() if one.attacked]
    assert len(attackers) == 3
    assert done == {client: twice[client] if client in attackers else DONE[client] or EPOCHS for client in done}


def uploads(run: SeedRun) -> dict[int, Any]:
    return {one.client: one for one in run.uploads}


def test_a_stopped_client_uploads_the_model_of_its_last_whole_epoch() -> None:
    """As if the task had no more epochs."""
    stopped = simulate_seed(scenario(), 0)
    assert {client: one.contribution.epochs for client, one in uploads(stopped).items()} == DONE
    for client, epochs in ((1, 2), (2, 1)):
        whole = simulate_seed(scenario(**{"training.epochs": epochs, "training.deadline_s": 100.0}), 0)
        assert uploads(stopped)[client].loss == pytest.approx(uploads(whole)[client].loss, rel=1e-5)


@pytest.mark.parametrize("protocol", ["sync", "buffered"])
@pytest.mark.parametrize(
    ("partial", "weights"),
    [
        # Of four samples of one size: all alike; 4, 2 and 1 of 7 epochs; a mean of 7/12, over 1, 1/2 and 1/4.
        ("whole", [1 / 3, 1 / 3, 1 / 3]),
        ("work", [4 / 7, 2 / 7, 1 / 7]),
        ("normalised", [7 / 36, 7 / 18, 7 / 9]),
    ],
)
def test_weights_of_partial_updates_by_hand(protocol: str, partial: str, weights: list[float]) -> None:
    kinds = {
        "sync": {"kind": "sync", "rounds": 1},
        "buffered": {"kind": "buffered", "rounds": 1, "buffer": 3, "dispatch": {"kind": "cohort"}},
    }
    run = simulate_seed(scenario(protocol={**kinds[protocol], "partial_work": partial}), 0)
    found = {client: one.weight for client, one in uploads(run).items()}
    assert found == pytest.approx(dict(zip(DONE, weights, strict=True)))
    # The clock alone says the same.
    alone = simulate_clock(scenario(protocol={**kinds[protocol], "partial_work": partial}), 0)
    told = select(alone.events, kinds=["aggregated"])
    assert dict(zip(told["client"].to_pylist(), told["weight"].to_pylist(), strict=True)) == pytest.approx(found)


def test_the_ledger_counts_the_epochs_that_were_done() -> None:
    run = simulate_seed(scenario(**DP_SGD), 0)
    assert {client: one.release.count for client, one in uploads(run).items()} == {0: 4, 1: 2, 2: 1}
    rows = SeedLedger(run).ledger.to_pylist()
    held = {row["client"]: row for row in rows if row["adversary"] == "server" and row["client"] >= 0}
    z = 2.0 / 2
    for client, epochs in {0: 4, 1: 2, 2: 1}.items():
        assert held[client]["exact_epsilon"] == pytest.approx(exact_epsilon(squared_mu_of(z, epochs), 1e-5), rel=1e-6)


def test_unused_partial_updates_count_for_privacy() -> None:
    """The server waits for two of three updates; it also holds the late one, which is never trained."""
    private = {
        **DP_SGD,
        "protocol": {"kind": "sync", "rounds": 2, "open": {"kind": "quorum", "share": 0.5}},
        "world.uplink.latency_s": {"kind": "listed", "values": [0.0, 0.1, 0.2, 0.3]},
    }
    run = simulate_seed(scenario(**private), 0)
    assert run.fates[Fate.LATE] > 0
    rows = SeedLedger(run).ledger.to_pylist()
    [late] = [row for row in rows if row["adversary"] == "server" and row["client"] == 2]
    sent = len(select(run.events, kinds=["uploaded"], clients=[2]))
    assert late["exact_epsilon"] == pytest.approx(exact_epsilon(squared_mu_of(1.0, sent), 1e-5), rel=1e-6)


def test_a_budget_is_spent_by_the_epochs_that_were_done() -> None:
    """The budget allows one whole task of client 0, and more tasks of clients that do fewer epochs."""
    stop_at = {"privacy.stop_at": {"epsilon": 30.0, "accountant": "rdp"}}
    run = simulate_clock(scenario(**DP_SGD, **stop_at, **{"protocol.rounds": 40, "protocol.time_limit_s": 500.0}), 0)
    sent = np.bincount(select(run.events, kinds=["upload_started"])["client"].to_numpy(), minlength=4)
    assert 0 < sent[0] < sent[1] < sent[2]
    assert sent[3] == 0


@pytest.mark.parametrize("record", ["digests", "parameters"])
def test_a_recorded_run_replays(record: str, tmp_path: Path) -> None:
    changes = {"evaluation.record": record, "protocol.rounds": 3, "protocol.partial_work": "work"}
    folder = execute(scenario(**changes), tmp_path / "run")
    assert replay_run(folder, train=record == "digests").unchecked == ()
    if record == "parameters":
        for buffer in recorded_buffers(read_recording(folder)):
            assert buffer.work is not None
            assert buffer.work.tolist() == [1.0, 0.5, 0.25]
