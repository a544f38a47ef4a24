"""What a server's defences know about a federation."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation.cast import prepare_seed, streams_of
from asyncfl.simulation.defence import split_root


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
