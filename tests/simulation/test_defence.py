"""What a server's defences know about a federation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation.cast import prepare_seed, streams_of
from asyncfl.simulation.defence import split_root
from asyncfl.simulation.seed import simulate_seed
from asyncfl.testing.recorded import recorded_buffers


def test_the_root_set_is_taken_out_of_the_test_set(scenario: Scenario) -> None:
    streams = streams_of(scenario, 0)
    data = scenario.data.build(streams)
    smaller, root = split_root(data, 20, streams)
    assert root is not None
    images, labels = root
    assert images.shape == (20, *data.test_images.shape[1:])
    whole = np.concatenate([smaller.test_images, images])
    labelled = np.concatenate([smaller.test_labels, labels])
    assert sorted(row.tobytes() for row in whole) == sorted(row.tobytes() for row in data.test_images)
    assert (np.bincount(labelled) == np.bincount(data.test_labels)).all()
    assert smaller.test_offsets.tolist() == [0, 30]
    assert len(data.test_labels) == 50


def test_each_domain_keeps_its_own_test_samples(scenario: Scenario) -> None:
    domains = scenario.override({"data.domains": ["mnist", "svhn"], "data.clients": 6, "data.test_samples": 20})
    streams = streams_of(domains, 0)
    data = domains.data.build(streams)
    smaller, _ = split_root(data, 10, streams)
    assert smaller.test_offsets[-1] == len(smaller.test_labels) == len(data.test_labels) - 10
    for domain in range(2):
        before = {image.tobytes() for image in data.test_of(domain)[0]}
        assert {image.tobytes() for image in smaller.test_of(domain)[0]} <= before


def test_without_a_root_set_the_data_stay_as_they_are(scenario: Scenario) -> None:
    streams = streams_of(scenario, 0)
    data = scenario.data.build(streams)
    assert split_root(data, 0, streams) == (data, None)


def test_defences_know_the_federation_and_how_updates_are_weighed(scenario: Scenario) -> None:
    changes = {"training": {"lr": 0.05, "batch_size": 10, "momentum": 0.5, "epochs": 2}, "protocol.server_rate": 2.0}
    known = prepare_seed(scenario.override(changes), 0).plan.defence.context
    assert known is not None
    assert (known.clients, known.samples.tolist()) == (5, [20] * 5)
    # With momentum 0.5 a gradient is added twice in the long run; 20 samples are 2 steps in each of 2 epochs.
    assert known.lr == pytest.approx(0.1)
    assert known.steps.tolist() == [4] * 5
    assert known.root_gradient is None
    assert known.weigh is not None
    np.testing.assert_allclose(known.weigh(np.array([20, 20]), np.array([0, 0])), [1.0, 1.0])


@pytest.mark.parametrize("privacy", [{"kind": "nbafl", "epsilon": 50}, {"kind": "nbafl", "epsilon": 5, "clip_norm": 2}])
@pytest.mark.parametrize("attackers_add_noise", [True, False])
def test_defences_are_told_the_noise_that_was_asked_of_these_very_uploads(
    scenario: Scenario, privacy: dict[str, Any], attackers_add_noise: bool
) -> None:
    threats = {"attack": {"kind": "sign_flip"}, "attackers": 2, "attackers_add_noise": attackers_add_noise}
    recorded = {"privacy": privacy, "threats": threats, "evaluation.record": "parameters"}
    run = simulate_seed(scenario.override(recorded), 0)
    assert run.recording is not None
    told = [buffer.upload_std.tolist() for buffer in recorded_buffers(run.recording)]
    # Who holds equally many samples adds equally much; attackers that add none are not known to be any.
    honest = [
        next(row["noise_std"] for row in run.uploads if row["version"] == v and not row["attacked"]) for v in (1, 2, 3)
    ]
    assert told == [[std] * 5 for std in honest]
    assert all(std > 0 for std in honest)
    assert len(set(honest)) == (1 if "clip_norm" in privacy else 3)


@pytest.mark.parametrize("detector", ["spectral", "zeno++", "aflguard"])
def test_honest_updates_under_noise_of_a_clipping_norm_that_is_found_out_are_let_in(
    scenario: Scenario, detector: str
) -> None:
    privacy = {"kind": "nbafl", "epsilon": 50}
    settings: dict[str, Any] = {"kind": detector}
    changes = {"privacy": privacy, "defence.detector": settings, "data.clients": 8, "training.gradient_clip": 1.0}
    fates = simulate_seed(scenario.override({**changes, "defence.root_samples": 20}), 0).fates
    ignored = {} if detector == "spectral" else {"defence.detector": {**settings, "noise": "ignored"}}
    assert fates["aggregated"] > 0
    if detector == "spectral":
        assert fates["flagged"] == 0
    else:
        # |noise|^2 is what these two subtract: without it hardly anybody is let in.
        literal = simulate_seed(scenario.override({**changes, "defence.root_samples": 20, **ignored}), 0).fates
        assert fates["flagged"] < literal["flagged"]
