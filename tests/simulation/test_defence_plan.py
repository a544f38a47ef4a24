"""Facts about the federation that the server's defences know."""

from typing import Any

import numpy as np
import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation import prepared
from asyncfl.simulation.simulate import simulate_seed
from asyncfl.testing.recordings import recorded_buffers


def test_the_root_set_changes_neither_clients_nor_the_test_set(scenario: Scenario) -> None:
    plain, rooted = (prepared(scenario.override({"defence.root_samples": n}), 0).data for n in (0, 99))
    assert plain.root is None
    assert rooted.root is not None
    assert [len(part) for part in rooted.root] == [99, 99]
    assert len(rooted.test_labels) == 50
    np.testing.assert_array_equal(plain.images, rooted.images)
    np.testing.assert_array_equal(plain.test_images, rooted.test_images)


def test_defences_know_the_federation_and_how_updates_are_weighed(scenario: Scenario) -> None:
    changes = {"training": {"lr": 0.05, "batch_size": 10, "momentum": 0.5, "epochs": 2}, "protocol.server_rate": 2.0}
    known = prepared(scenario.override(changes), 0).plan.defence.context
    assert known is not None
    assert (known.clients, known.samples.tolist()) == (5, [20] * 5)
    # With momentum 0.5 a gradient is added twice in the long run; 20 samples are 2 steps in each of 2 epochs.
    assert known.lr == pytest.approx(0.1)
    assert known.steps.tolist() == [4] * 5
    assert known.root_gradient is None
    assert known.root_gradients is None
    assert known.linear
    for other in (
        {"defence.rule": {"kind": "median"}},
        {
            "protocol": {
                "kind": "buffered",
                "buffer": 2,
                "rounds": 3,
                "aggregation": "mix",
                "dispatch": {"kind": "constant", "in_flight": 4},
            }
        },
    ):
        assert not prepared(scenario.override(other), 0).plan.defence.context.linear
    assert known.weigh is not None
    np.testing.assert_allclose(known.weigh(np.array([20, 20]), np.array([0, 0]), None), [1.0, 1.0])
    np.testing.assert_allclose(known.weigh(np.array([10, 30]), np.array([0, 0]), None), [0.5, 1.5])
    alike = prepared(scenario.override({**changes, "protocol.weighting": "uniform"}), 0).plan.defence.context
    assert alike is not None
    assert alike.weigh is not None
    np.testing.assert_allclose(alike.weigh(np.array([10, 30]), np.array([0, 0]), None), [1.0, 1.0])
    by_work = prepared(scenario.override({**changes, "protocol.partial_work": "work"}), 0).plan.defence.context
    assert by_work is not None
    done = np.array([1.0, 1 / 3])
    np.testing.assert_allclose(by_work.factors(np.array([10, 30]), np.array([0, 0]), done), [1.0, 1.0])


@pytest.mark.parametrize("privacy", [{"kind": "nbafl", "epsilon": 50}, {"kind": "nbafl", "epsilon": 5, "clip_norm": 2}])
@pytest.mark.parametrize("attackers_add_noise", [True, False])
def test_defences_know_the_noise_of_the_uploads(
    scenario: Scenario, privacy: dict[str, Any], attackers_add_noise: bool
) -> None:
    threats = {"attack": {"kind": "sign_flip"}, "attackers": 2, "attackers_add_noise": attackers_add_noise}
    recorded = {"privacy": privacy, "threats": threats, "evaluation.record": "parameters"}
    run = simulate_seed(scenario.override(recorded), 0)
    assert run.recording is not None
    told = [buffer.upload_std.tolist() for buffer in recorded_buffers(run.recording)]
    # Who holds equally many samples adds equally much; attackers that add none are not known to be any.
    honest = [next(one.added_std for one in run.models[version].uploads if not one.attacked) for version in (1, 2, 3)]
    assert told == [[std] * 5 for std in honest]
    assert all(std > 0 for std in honest)
    assert len(set(honest)) == (1 if "clip_norm" in privacy else 3)


@pytest.mark.parametrize("detector", ["zeno++", "aflguard"])
def test_honest_updates_with_noise_of_a_median_clip_norm_are_accepted(scenario: Scenario, detector: str) -> None:
    """|noise|^2 is what these two subtract: without it hardly anybody is let in."""
    changes = {"privacy": {"kind": "nbafl", "epsilon": 50}, "data.clients": 8, "training.gradient_clip": 1.0}
    fates = [
        simulate_seed(scenario.override({**changes, "defence.detector": settings, "defence.root_samples": 20}), 0).fates
        for settings in ({"kind": detector}, {"kind": detector, "noise": "ignored"})
    ]
    assert fates[0]["aggregated"] > 0
    assert fates[0]["flagged"] < fates[1]["flagged"]


NOISED = {
    "privacy": {"kind": "local_gaussian", "epsilon": 50, "clip_norm": 1.0},
    "training": {"lr": 0.05, "batch_size": 10, "gradient_clip": 1.0},
    "data.clients": 8,
}


def test_defences_know_the_noise_of_all_epochs(scenario: Scenario) -> None:
    changes = NOISED | {"training.epochs": 3, "evaluation.record": "parameters"}
    told = []
    for noise in ("upload", "epoch"):
        run = simulate_seed(scenario.override(changes).override({"privacy.noise": noise}), 0)
        assert run.recording is not None
        told.append(next(iter(recorded_buffers(run.recording))).upload_std)
    np.testing.assert_allclose(told[1], 3**0.5 * told[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy.noise": "epoch", "training.epochs": 3},
        {"compression": {"kind": "top_k", "share": 0.01}},
        {"compression": {"kind": "quantised", "bits": 2}},
    ],
)
def test_noise_between_epochs_and_compression_flag_no_honest_client(
    scenario: Scenario, changes: dict[str, Any]
) -> None:
    run = simulate_seed(scenario.override(NOISED | {"defence.detector": {"kind": "evidence"}}).override(changes), 0)
    assert (run.fates["aggregated"], run.fates["flagged"]) == (24, 0)
    unchecked = any("updates are compressed" in note for note in run.noted)
    assert unchecked is ("compression" in changes)


def test_gradients_of_classes_add_up_to_that_of_the_root_set(scenario: Scenario) -> None:
    federation = prepared(scenario.override({"defence.root_samples": 30}), 0)
    known, model = federation.plan.defence.context, federation.plan.initial
    assert known is not None
    assert known.root_gradient is not None
    assert known.root_gradients is not None
    assert federation.data.root is not None
    _, counts = np.unique(federation.data.root[1], return_counts=True)
    of_classes = known.root_gradients(model)
    np.testing.assert_allclose(counts / 30 @ of_classes, known.root_gradient(model), atol=1e-5)
