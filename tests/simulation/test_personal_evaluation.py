"""Federations with personal layers: traffic, training, evaluation, audits and refused settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl import Run, RunError, Scenario, ScenarioError, simulate
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.extras.audit.membership import audit_membership
from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours
from asyncfl.learning.job import Job
from asyncfl.learning.personal_layers import SharedPartLearner
from asyncfl.measurements import TwinAudit
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.simulation import prepared, simulate_seed


def described(**changes: Any) -> Scenario:
    base = {
        "data": {
            "dataset": "iris",
            "clients": 4,
            "samples_per_client": 20,
            "partition": {"kind": "dirichlet", "alpha": 0.3},
        },
        "model": {"kind": "mlp", "hidden": [5], "personal": ["3.*"]},
        "training": {"lr": 0.1, "batch_size": 10, "epochs": 2},
        "protocol": {"kind": "sync", "rounds": 3},
        "evaluation": {"keep": {"every": 1}, "clients_every": 1},
    }
    return Scenario.read(base).override(changes)


def test_personal_layers_equal_fedper_by_hand() -> None:
    """Each client trains shared and own layers together; the server averages the shared ones alone."""
    scenario = described()
    run = simulate(scenario)
    federation = prepared(scenario, 0)
    learner, data = federation.learner, federation.data
    assert isinstance(learner, SharedPartLearner)
    whole, parameter_split = learner.whole, learner.parameter_split
    shared, own = federation.plan.initial, [learner.initial] * 4
    for version in range(1, 4):
        rows = np.empty((4, whole.n_parameters), np.float32)
        jobs = [federation.path.job(Assignment(0, client, version - 1, shared, version - 1)) for client in range(4)]
        whole.train(rows, [replace(job, base=parameter_split.join(shared, own[c])) for c, job in enumerate(jobs)])
        own = [parameter_split.split(row)[1] for row in rows]
        shared = parameter_split.split(rows)[0].mean(0)
        row = run.rounds.set_index("version").loc[version]
        models = [parameter_split.join(shared, part) for part in own]
        on_own = np.array([whole.evaluate(model, *data.client(c)) for c, model in enumerate(models)])
        tested = np.mean([whole.evaluate(model, data.test_images, data.test_labels) for model in models], axis=0)
        assert row["train_loss"] == pytest.approx(on_own[:, 0].mean(), abs=1e-4)
        assert (row["test_loss"], row["test_accuracy"]) == pytest.approx(tuple(tested), abs=1e-4)
        assert row["client_loss_worst_decile"] == pytest.approx(on_own[:, 0].max(), abs=1e-4)
        for client in range(4):
            flat = np.concatenate([p.detach().numpy().ravel() for p in run.model(version, client=client).parameters()])
            np.testing.assert_allclose(flat, models[client], atol=1e-5)


def test_only_the_shared_layers_are_on_the_wire() -> None:
    whole, part = simulate(described(**{"model.personal": []})), simulate(described())
    sent, less = whole.rounds["bytes_up"].iloc[-1], part.rounds["bytes_up"].iloc[-1]
    assert (sent, less) == (3 * 4 * 4 * (4 * 5 + 5 + 5 * 3 + 3), 3 * 4 * 4 * (4 * 5 + 5))
    assert part.summary["learner"]["n_personal"] == 18
    assert any(
        note.startswith("model.personal: 18 of 43 parameters stay at each client") for note in part.summary["notes"]
    )


def test_a_client_keeps_its_personal_layers_if_its_update_is_dropped() -> None:
    federation = prepared(described(), 0)
    path, initial = federation.path, federation.plan.initial
    assert path.personal is not None
    first, second = (Assignment(number, 2, 0, initial, turn) for number, turn in ((7, 0), (9, 1)))
    path.train(first)
    path.drop(7)
    after_one = path.personal.of(2).copy()
    path.train(second)
    made = path.carry_out([second], 0, initial).models[0].copy()
    again = prepared(described(), 0).path
    assert again.personal is not None
    for assignment in (first, second):
        again.train(assignment)
    np.testing.assert_array_equal(again.carry_out([second], 0, initial).models[0], made)
    assert (after_one != path.personal.of(2)).any()
    np.testing.assert_array_equal(again.personal.of(2), path.personal.of(2))
    np.testing.assert_array_equal(path.personal.of(1), path.personal.learner.initial)


BUFFERED = {
    "protocol": {
        "kind": "buffered",
        "rounds": 6,
        "buffer": 2,
        "dispatch": {"kind": "constant", "in_flight": 4},
        "max_staleness": 1,
    },
    "world": {
        "device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 1.0},
        "uplink": {"latency_s": 0.05, "loss": {"kind": "independent", "probability": 0.3}, "retransmissions": 0},
        "tap": {"uplink": True},
    },
}


def test_personal_layers_leave_events_and_epsilons_unchanged() -> None:
    private = {"privacy": {"kind": "nbafl", "epsilon": 10, "clip_norm": 1.0}}
    one, again = (simulate(described(**BUFFERED, **private)) for _ in range(2))
    assert one.rounds.equals(again.rounds)
    assert one.models == again.models
    assert {"lost_up", "stale"} & {fate for fate, number in one.summary["fates"].items() if number}
    plain = simulate(described(**BUFFERED, **private, **{"model.personal": []}))
    columns = ["time_s", "kind", "client", "task", "version"]
    assert one.events[columns].equals(plain.events[columns])
    counted = [run.ledger.drop(columns=["seed"]).to_dict("list") for run in (one, plain)]
    assert counted[0].keys() == counted[1].keys()
    epsilons = [{key: values for key, values in table.items() if key.startswith("epsilon")} for table in counted]
    for key, values in epsilons[0].items():
        np.testing.assert_array_equal(np.array(values, float), np.array(epsilons[1][key], float), err_msg=key)


def test_a_dropped_upload_is_recorded_with_the_last_clip_norm() -> None:
    """The median of a collection is not that of an update that is dropped by itself."""
    federation = prepared(described(privacy={"kind": "nbafl", "epsilon": 10, "clip_norm": "median"}), 0)
    path, initial = federation.path, federation.plan.initial
    assignments = [Assignment(task, task % 4, 0, initial, task // 4) for task in range(6)]
    for assignment in assignments:
        path.train(assignment)
    assert path.drop(0).clip_norm == 1.0  # as the scheme has it before anything happened
    collected = path.carry_out(assignments[1:4], 0, initial)
    dropped = path.drop(4)
    assert dropped.clip_norm == collected.clip_norm == pytest.approx(np.median(collected.norms))
    assert dropped.release == collected.uploads[0].release


DP_SGD = {
    "training.example_clip": 1.0,
    "training.example_noise": 2.0,
    "privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 2.0},
}


@pytest.mark.parametrize(("adversary", "kind"), [("server", "uploaded"), ("eavesdropper", "overheard")])
def test_an_upload_depends_on_earlier_tasks_through_personal_layers(adversary: str, kind: str) -> None:
    """Noise drawn in training hides its own task; personal layers carry earlier tasks into the next upload."""
    scenario = described(**BUFFERED, **DP_SGD, **{"world.tap.packet_loss": 0.5})
    run, trained = simulate(scenario), simulate_seed(scenario, 0).uploads
    held = run.events[run.events["kind"] == kind].groupby("client")["task"].agg(["max", "size"])
    rows = run.ledger[(run.ledger["holder"] == "client") & (run.ledger["adversary"] == adversary)].set_index("client")
    counted = rows["releases"].to_dict()
    for client, last in held["max"].items():
        tasks = sum(one.client == client and one.task <= last for one in trained)
        assert counted[client] == tasks
        # Two epochs each, of half the noise multiplier: a sample replaced changes a sum of gradients by 2 C.
        assert rows["squared_mu"][client] == pytest.approx(2 * tasks / (2.0 / 2) ** 2)
    # More than what it got.
    assert sum(counted.values()) > held["size"].sum()


def test_domains_are_judged_by_their_own_clients() -> None:
    scenario = Scenario.read(
        {
            "data": {
                "domains": ["mnist", "usps"],
                "source": "embedded",
                "clients": 4,
                "samples_per_client": 10,
                "test_samples": 10,
            },
            "model": {"kind": "small_cnn", "channels": [4], "groups": 2, "personal": ["2.*"]},
            "training": {"lr": 0.1, "batch_size": 10},
            "protocol": {"kind": "sync", "rounds": 1},
            "evaluation": {"keep": "last"},
        }
    )
    run = simulate(scenario)
    data = scenario.data.build(Streams(0))
    last = run.rounds.iloc[-1]
    shares = []
    for client in range(4):
        images, labels = data.test_of(int(data.client_domains[client]))
        import torch

        with torch.no_grad():
            answers = run.model(client=client)(torch.from_numpy(images)).argmax(1).numpy()
        shares.append(float((answers == labels).mean()))
    assert last["test_accuracy_mnist"] == pytest.approx(np.mean(shares[:2]))
    assert last["test_accuracy_usps"] == pytest.approx(np.mean(shares[2:]))
    assert last["test_accuracy"] == pytest.approx(np.mean(shares))


def test_audits_see_shared_layers_only(tmp_path: Path) -> None:
    scenario = described(**{"data.samples_per_client": 40, "data.partition": {"kind": "iid"}, "data.dataset": "digits"})
    simulate(scenario).save(tmp_path / "run")
    finished = FinishedRun.load(tmp_path / "run")
    found = audit_membership(finished, (0,), "server", clients=4, shadow_worlds=8).found.to_pandas()
    assert found["area"].between(0, 1).all()
    with pytest.raises(ScenarioError, match=r"model\.personal: must be empty where twins are trained"):
        audit_neighbours(finished, TwinAudit(clients=1, twins=2), (0,))


def test_a_personal_model_needs_a_client(tmp_path: Path) -> None:
    run = Run.load(simulate(described()).save(tmp_path / "run"))
    for client in (None, 4):
        with pytest.raises(RunError, match=r"client must be 0\.\.3, as model\.personal leaves each client layers"):
            run.model(client=client)
    plain = simulate(described(**{"model.personal": []}))
    with pytest.raises(RunError, match="client must be left out, as all clients have the same model"):
        plain.model(client=0)


def test_one_sample_moves_scores_with_personal_layers_by_no_more_than_the_ledger_counts() -> None:
    """One extreme sample turns the personal layer, and with it the answers on others: more than twice 1/n."""
    epsilon = 0.5
    changes = {
        "privacy": {"kind": "local_gaussian", "epsilon": 6, "scores": {"epsilon": epsilon}},
        "training": {"lr": 0.05, "gradient_clip": 1.0, "batch_size": 5, "epochs": 4},
        "defence": {"detector": {"kind": "safl"}},
    }
    one, other = prepared(described(**changes), 0), prepared(described(**changes), 0)
    other.data.images[other.data.offsets[0]] = -30.0
    scores = []
    for federation in (one, other):
        path, images, labels = federation.path, *federation.data.client(0)
        order = np.stack([np.arange(len(labels))] * 4)
        personal, base = path.personal, federation.plan.initial
        assert personal is not None
        personal.train(np.empty((1, len(base)), np.float32), [Job(base, images, labels, order)], [0])
        scores.append(path._train.accuracies(0, np.stack([base] * 4), path.states.of(0)))
    moved, n = float(np.linalg.norm(scores[0] - scores[1])), one.data.samples(0)
    assert moved > 2 * np.sqrt(4) / n
    # The Gaussian mechanism of this shift, whatever the package takes its sensitivity to be.
    noise = one.path.scheme.scores
    assert noise is not None
    std = noise.std_of(4, n, one.path.context.personal)
    assert float(exact_epsilon((moved / std) ** 2, 1e-5)) <= epsilon
