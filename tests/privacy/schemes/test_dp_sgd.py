"""Guarantees of noise during training, and the checks of the training."""

import math

import pytest

from asyncfl.learning import Training
from asyncfl.privacy import Contribution, DpSgd, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.releases import upload_release

CONTEXT = PrivacyContext(clients=5, participants=5, rounds=10, smallest_samples=50, exposures=0, epochs=4)
UPLOAD = Contribution(client=3, samples=100)


def test_an_epoch_is_one_release_with_half_the_multiplier():
    scheme = DpSgd(clip_norm=2, noise_multiplier=5)
    release = upload_release(scheme, CONTEXT, None, UPLOAD)
    assert (release.std, release.sensitivity, release.count) == (10, 4, 4)
    assert release.multiplier == 2.5
    stated = scheme.upload_guarantee(CONTEXT)
    assert (stated.neighbours, stated.status) == ("replace", "proven")
    assert release.epsilon == pytest.approx(exact_epsilon(4 / 2.5**2, 1e-5))
    assert scheme.upload_guarantee(CONTEXT).epsilon == pytest.approx(exact_epsilon(40 / 2.5**2, 1e-5))
    assert scheme.upload_noise(CONTEXT, None, UPLOAD).in_training
    assert scheme.model_noise(CONTEXT, None).std == 0


def test_an_epsilon_determines_the_multiplier():
    scheme = DpSgd(epsilon=3)
    assert scheme.upload_guarantee(CONTEXT).epsilon == pytest.approx(3)
    assert scheme.multiplier(4, 10) == pytest.approx(math.sqrt(40) * scheme.multiplier(1, 1))
    assert DpSgd(epsilon=1).multiplier(1, 1) == pytest.approx(2 * 3.730632, abs=2e-6)


def test_training_must_clip_and_add_the_same_noise():
    scheme = DpSgd(clip_norm=2, noise_multiplier=1.5)
    assert list(scheme.faults(5, 5, Training(example_clip=2.0, example_noise=1.5))) == []
    faults = list(scheme.faults(5, 5, Training()))
    assert [fault.field for fault in faults] == ["clip_norm", "noise_multiplier"]
    assert "training.example_clip (None), got 2" in faults[0].message
    assert "needs training.example_noise: 1.5, got 0" in faults[1].message
    (fault,) = DpSgd(epsilon=1).faults(5, 1, Training(example_clip=1.0, example_noise=7.0))
    assert fault.field == "epsilon"
    told = float(fault.message.split("example_noise: ")[1].split(",")[0])
    assert list(DpSgd(epsilon=1).faults(5, 1, Training(example_clip=1.0, example_noise=told))) == []
