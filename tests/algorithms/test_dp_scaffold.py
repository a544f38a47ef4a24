"""DP-SCAFFOLD: what noise on updates or on steps covers of control variates, and what it does not."""

from typing import Any

import numpy as np
import pytest

from asyncfl.algorithms.dp_scaffold import DpScaffold
from asyncfl.algorithms.scaffold import CHANGE, CONTROL
from asyncfl.api import one_seed
from asyncfl.base.client_state import ClientState
from asyncfl.client import Assignment
from asyncfl.privacy.flags import PAYLOADS
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.prepare import ResolvedSeed, prepare
from asyncfl.threats.composite import Combined
from tests.privacy.ledger.test_runs_truth import WORLD, Row, check, epsilon_of, squared_mu

NOISY: dict[str, Any] = {"kind": "dp_fedavg", "noise_multiplier": 4.0, "clip_norm": 0.1}
STEPS: dict[str, Any] = {
    "privacy": {"kind": "dp_sgd", "noise_multiplier": 4.0, "clip_norm": 0.5},
    "training.example_clip": 0.5,
    "training.example_noise": 4.0,
}


def seed_run(kind: str, protocol: dict[str, Any], **more: Any) -> Any:
    return simulate_seed(Scenario.read(WORLD | {"protocol": protocol, "algorithm": {"kind": kind}}).override(more), 0)


def ledger(run: Any) -> Any:
    return SeedLedger(run).ledger.to_pandas().query("holder == 'client'").set_index(["adversary", "client"])


def test_without_noise_and_clip_it_is_scaffold(description: dict[str, Any]) -> None:
    ours, theirs = (
        one_seed(Scenario.read(description | {"algorithm": {"kind": kind}}), 0) for kind in ("dp_scaffold", "scaffold")
    )
    for column in ("train_loss", "test_accuracy", "bytes_up"):
        found = [run.tables["rounds"].to_pandas()[column] for run in (ours, theirs)]
        np.testing.assert_allclose(*found, rtol=1e-5)


def test_the_change_of_a_control_is_computed_from_the_noised_update(description: dict[str, Any]) -> None:
    scenario = Scenario.read(description | {"algorithm": DpScaffold(), "privacy": NOISY})
    federation = prepare(ResolvedSeed(scenario, 0, 0))
    base = federation.plan.initial
    control = np.linspace(-1, 1, len(base), dtype=np.float32)
    batch = federation.path.carry_out([Assignment(0, 1, 0, base, download={CONTROL: control})], 0, base)
    update, steps = batch.models[0] - base, 2 * 3
    assert np.linalg.norm(update) > 10 * 0.1, "the noise is longer than the clip norm"
    np.testing.assert_allclose(batch.payloads[CHANGE][0], -update / (steps * 0.05) - control, rtol=1e-4, atol=1e-4)
    own = federation.path.states.of(1).arrays[CONTROL]
    # The client's own control has neither noise nor clip: its gradients are long.
    assert np.linalg.norm(own + control) > 0.1 / (steps * 0.05)


def test_a_client_sends_no_vector_that_its_training_yields() -> None:
    base, trained = np.zeros(2, dtype=np.float32), np.ones(2, dtype=np.float32)
    uploads, state = DpScaffold().after_training(ClientState(), {CONTROL: base}, base, trained, 2, 0.5)
    assert not uploads
    assert state.arrays[CONTROL].tolist() == [-1.0, -1.0]


def test_the_server_learns_as_much_as_from_updates_alone() -> None:
    """u + n, and -c - (u + n) / (K lr): the likelihood ratio of both is that of the first."""
    run = seed_run("dp_scaffold", {"kind": "sync", "rounds": 3}, privacy=NOISY)
    check(run)
    rows = ledger(run)
    z, clip, per_step = 4.0, 0.1, 1 / 0.05
    vector: list[Row] = [{"u": 1.0, "n": 1.0}, {"u": -per_step, "n": -per_step}]
    one = squared_mu(vector, {"n": z * clip}, {"u": 2 * clip})
    assert squared_mu(vector[:1], {"n": z * clip}, {"u": 2 * clip}) == pytest.approx(one)
    for (_, client), row in rows.loc[["server"]].iterrows():
        assert row["exact_epsilon"] == pytest.approx(epsilon_of(3 * one, row["delta"])), client
        assert row["provable"] == pytest.approx(row["exact_epsilon"])
        assert PAYLOADS not in (row["flags"] or "")
    # SCAFFOLD sends the exact change beside the noised update.
    vector[1] = {"u": -per_step}
    assert np.isinf(squared_mu(vector, {"n": z * clip}, {"u": 2 * clip}))
    plain = ledger(seed_run("scaffold", {"kind": "sync", "rounds": 3}, privacy=NOISY)).loc[["server"]]
    assert np.isinf(plain["exact_epsilon"]).all()
    assert plain["flags"].str.contains(PAYLOADS).all()


def test_controls_show_the_public_no_more_than_all_single_updates() -> None:
    """Controls weigh updates otherwise than models do: both together may show each update."""
    protocol = {"kind": "fedbuff", "rounds": 4, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}
    rows = ledger(seed_run("dp_scaffold", protocol, privacy=NOISY))
    plain = ledger(seed_run("fedavg", protocol, privacy=NOISY))
    assert (rows["provable"].loc["public"] > plain["provable"].loc["public"]).any()
    assert (rows["provable"].loc["public"] <= rows["provable"].loc["server"] + 1e-9).all()


@pytest.mark.parametrize("kind", ["scaffold", "dp_scaffold"])
def test_noise_of_steps_covers_controls(kind: str) -> None:
    """The printed algorithm: both vectors are functions of the noised gradients."""
    protocol = {"kind": "sync", "rounds": 3}
    rows = ledger(seed_run(kind, protocol, **STEPS))
    plain = ledger(seed_run("fedavg", protocol, **STEPS))
    assert rows["exact_epsilon"].loc["server"].equals(plain["exact_epsilon"].loc["server"])
    assert np.isfinite(rows["provable"].loc["server"]).all()
    assert not rows["flags"].fillna("").str.contains(PAYLOADS).any()


def test_an_overheard_update_tells_of_earlier_ones_through_the_control() -> None:
    """Upload 2 of a client holds H_2 - H_1, with the noise of both: of a sample in both it tells as two releases do."""
    # Single packets, of which half are lost before anybody receives them.
    loss = {"kind": "independent", "probability": 0.5}
    lossy = {"world.uplink": {"latency_s": 0.05, "mtu_bytes": 10**6, "loss": loss, "retransmissions": 0}}
    tap = {"world.tap": {"uplink": True, "packet_loss": 0.5}}
    protocol = {"kind": "fedbuff", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 5}}
    run = seed_run("scaffold", protocol, **STEPS, **lossy, **tap)
    rows = ledger(run).loc["eavesdropper"]
    tasks = run.tasks.to_pandas().merge(run.uploads.table.select(["task"]).to_pandas())
    overheard = tasks.query("overheard_up_s.notna()")
    lost = below = 0
    for client, last in overheard.groupby("client").task.max().items():
        earlier = tasks[(tasks.client == client) & (tasks.task <= last)]
        assert rows["releases"][client] >= len(earlier)
        # The explicit vector: mean gradient and noise of each task, and those of the task before.
        order = earlier.task.tolist()
        vector: list[Row] = []
        for place, (task, heard) in enumerate(zip(order, earlier.overheard_up_s.notna(), strict=True)):
            row: Row = {("H", task): 1.0, ("n", task): 1.0}
            if place:
                row |= {("H", order[place - 1]): -1.0, ("n", order[place - 1]): -1.0}
            vector += [row] if heard else []
        noise, moved = ({(name, task): size for task in order} for name, size in (("n", 4.0), ("H", 2.0)))
        truth = squared_mu(vector, noise, moved)
        assert rows["exact_epsilon"][client] >= epsilon_of(truth, rows["delta"][client]) * (1 - 1e-9)
        if len(vector) < len(order):
            held_alone = epsilon_of(len(vector) * 0.5**2, rows["delta"][client])
            below += epsilon_of(truth, rows["delta"][client]) > held_alone
        lost += (earlier.overheard_up_s.isna() & (earlier.fate != "aggregated")).sum()
    assert lost, "some task was neither overheard nor in a model, and counts"
    assert below, "held uploads alone would have been too few releases"


@pytest.mark.parametrize(("kind", "payloads", "sign"), [("scaffold", False, 1), ("scaffold", True, -1)])
def test_an_attacker_may_poison_the_change_of_its_control(
    description: dict[str, Any], kind: str, payloads: bool, sign: int
) -> None:
    attack = {"kind": "sign_flip", "factor": 1.0, "payloads": payloads}
    description |= {"algorithm": {"kind": kind}, "threats": {"attackers": 2, "attack": attack}}
    federation = prepare(ResolvedSeed(Scenario.read(description), 0, 0))
    base = federation.plan.initial
    zero = {CONTROL: np.zeros_like(base)}
    assert federation.attackers is not None
    members = federation.attackers.members
    pair = min({0, 1, 2, 3} - members), min(members)
    tasks = [Assignment(number, client, 0, base, download=zero) for number, client in enumerate(pair)]
    batch = federation.path.carry_out(tasks, 0, base)
    # Of an honest task the change is -u / (K lr); the attacker's update is negated in any case.
    by_update = -(batch.models - base) / np.float32(6 * 0.05)
    changes = batch.payloads[CHANGE]
    np.testing.assert_allclose(changes[0], by_update[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(changes[1], -sign * by_update[1], rtol=0, atol=1e-5)


def test_attacks_after_one_another_craft_payloads_after_one_another() -> None:
    flips = [{"kind": "sign_flip", "factor": factor, "payloads": True} for factor in (2.0, 3.0)]
    attack = Combined.model_validate({"attacks": flips})
    ones = np.ones((2, 3), dtype=np.float32)
    assert attack.craft_payload("any", ones).tolist() == (6 * ones).tolist()


def test_a_change_that_is_computed_from_the_update_is_poisoned_with_it(description: dict[str, Any]) -> None:
    description |= {
        "algorithm": {"kind": "dp_scaffold"},
        "threats": {"attackers": 4, "attack": {"kind": "sign_flip", "factor": 3.0}},
    }
    federation = prepare(ResolvedSeed(Scenario.read(description), 0, 0))
    base = federation.plan.initial
    assignment = Assignment(0, 1, 0, base, download={CONTROL: np.zeros_like(base)})
    batch = federation.path.carry_out([assignment], 0, base)
    wanted = -(batch.models - base) / np.float32(6 * 0.05)
    np.testing.assert_allclose(batch.payloads[CHANGE], wanted, rtol=0, atol=1e-5)
    own = federation.path.states.of(1).arrays[CONTROL]
    np.testing.assert_allclose(batch.payloads[CHANGE][0], -3 * own, rtol=0, atol=1e-4)
