"""Noise on uploads in SAFL."""

import math
from dataclasses import replace

import numpy as np
import pytest

from asyncfl.learning import Training
from asyncfl.privacy import Contribution, GaussianUpload, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.ledger.releases import upload_release

SMALL, LARGE = Contribution(0, 300), Contribution(0, 600)
CONTEXT = PrivacyContext(clients=100, participants=10, rounds=50, smallest_samples=600, exposures=0)


def test_noise_of_one_upload_equals_the_published_values():
    for delta, sigma in ((1e-5, 0.00269156), (0.01, 0.00172640)):
        noise = GaussianUpload(epsilon=6, delta=delta).upload_noise(CONTEXT, None, LARGE)
        assert noise.std == pytest.approx(sigma, abs=5e-9)


def test_sensitivity_is_the_change_of_a_mean_of_clipped_gradients():
    """Four gradients of norm C = 3: replacing one by its opposite moves their mean by 2C/|D| = 1.5."""
    gradients = np.array([[3.0, 0.0]] * 4)
    replaced = np.array([[-3.0, 0.0], *gradients[1:]])
    moved = np.linalg.norm(gradients.mean(axis=0) - replaced.mean(axis=0))
    noise = GaussianUpload(epsilon=6, clip_norm=3).upload_noise(CONTEXT, None, Contribution(0, 4))
    assert noise.sensitivity == pytest.approx(moved) == pytest.approx(1.5)
    assert noise.std == pytest.approx(4.8448053 * moved / 6)


def test_a_total_budget_is_divided_by_the_number_of_versions():
    each, total = GaussianUpload(epsilon=6), GaussianUpload(epsilon=6, budget="total")
    assert total.upload_noise(CONTEXT, None, LARGE).std == pytest.approx(
        50 * each.upload_noise(CONTEXT, None, LARGE).std
    )
    assert (each.upload_guarantee(CONTEXT).releases, total.upload_guarantee(CONTEXT).releases) == (1, 50)


def test_noise_in_each_epoch_counts_one_release_per_epoch_and_needs_plain_sgd():
    scheme = GaussianUpload(epsilon=6, noise="epoch")
    two = replace(CONTEXT, epochs=2)
    assert scheme.noise_each_epoch
    assert scheme.upload_noise(two, None, LARGE).std == GaussianUpload(epsilon=6).upload_noise(two, None, LARGE).std
    assert upload_release(scheme, two, None, LARGE).count == 2
    assert upload_release(GaussianUpload(epsilon=6), two, None, LARGE).count == 1
    assert not GaussianUpload(epsilon=math.inf, noise="epoch").noise_each_epoch
    plain = Training(lr=0.1, gradient_clip=1.0, epochs=2)
    assert list(scheme.faults(5, 5, plain)) == []
    (fault,) = scheme.faults(5, 5, plain.model_copy(update={"momentum": 0.5}))
    assert fault.field == "noise"
    assert "must be 0, got momentum 0.5" in fault.message


def test_noise_in_each_epoch_exceeds_the_claim_and_is_flagged():
    three, scheme = replace(CONTEXT, epochs=3), GaussianUpload(epsilon=6, noise="epoch")
    release = upload_release(scheme, three, None, LARGE)
    assert exact_epsilon(release.count / release.multiplier**2, 1e-5) == pytest.approx(10.9, abs=0.05)


def test_the_claim_is_proven_for_one_printed_step_alone():
    """One step moves by at most lr 2C/n; of two, the second may go anywhere within the clip in both worlds."""
    scheme, printed = GaussianUpload(epsilon=6), replace(CONTEXT, lr=0.01, clips_samples=True)
    statuses = {
        "one step": scheme.upload_guarantee(printed).status,
        "two steps": scheme.upload_guarantee(replace(printed, epochs=2)).status,
        "noise after each": GaussianUpload(epsilon=6, noise="epoch")
        .upload_guarantee(replace(printed, epochs=2))
        .status,
        "lr above 1": scheme.upload_guarantee(replace(printed, lr=2.0)).status,
        "momentum": scheme.upload_guarantee(replace(printed, plain_sgd=False)).status,
        "a step per batch": scheme.upload_guarantee(replace(CONTEXT, lr=0.01, batch_size=32)).status,
    }
    assert [name for name, status in statuses.items() if status == "proven"] == ["one step", "noise after each"]
    assert scheme.proven_sensitivity(printed, None, LARGE) == pytest.approx(0.01 * 2 / 600)
    assert scheme.proven_sensitivity(replace(printed, epochs=3), None, LARGE) == pytest.approx(0.02 * (2 + 1 / 600))
