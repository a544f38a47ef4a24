"""Mechanisms on clients and server: noise, sensitivity and notes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from asyncfl.learning import Training
from asyncfl.privacy import Contribution, GaussianNoise, LaplaceNoise, Mechanisms, PrivacyContext
from asyncfl.privacy.flags import INVALID
from asyncfl.privacy.ledger.releases import upload_release
from asyncfl.privacy.ledger.rows import scheme_notes
from asyncfl.privacy.schemes.mechanisms import Clip

CONTEXT = PrivacyContext(clients=10, participants=4, rounds=20, smallest_samples=50, exposures=0, n_parameters=10)
UPLOAD = Contribution(client=3, samples=100)


def of_client(noise, **clip):
    return Mechanisms(client=noise, clip=Clip(**clip))


def test_laplace_noise_uses_the_l1_sensitivity():
    scheme = of_client(LaplaceNoise(epsilon=0.5), norm=0.5)
    assert scheme.clip_target.order == 1
    # Sensitivity 1 and epsilon .5: scale 2, density 1/4 at 0, standard deviation 2.828427.
    assert scheme.upload_noise(CONTEXT, 0.5, UPLOAD).sensitivity == 1
    std = scheme.upload_noise(CONTEXT, 0.5, UPLOAD).std
    assert std == pytest.approx(2.828427, abs=5e-7)
    assert 1 / (2 * std / math.sqrt(2)) == pytest.approx(0.25)
    release = upload_release(scheme, CONTEXT, 0.5, UPLOAD)
    assert (release.distribution, release.multiplier) == ("laplace", pytest.approx(2))
    stated = scheme.upload_guarantee(CONTEXT)
    assert (stated.status, release.epsilon, stated.delta) == ("proven", 0.5, 0)


def test_accountants_use_the_true_sensitivity_of_invalid_noise():
    literal = LaplaceNoise(epsilon=1, sensitivity_from="seed_literal")
    scheme = Mechanisms(client=literal, server=literal, clip=Clip(norm=0.5))
    # Ten parameters: the L1 sensitivity of an upload is sqrt(10) 2S, and the scale S/epsilon.
    assert scheme.upload_noise(CONTEXT, 0.5, UPLOAD).sensitivity == pytest.approx(math.sqrt(10))
    release = upload_release(scheme, CONTEXT, 0.5, UPLOAD)
    assert 1 / release.multiplier == pytest.approx(2 * math.sqrt(10))
    assert release.epsilon == 1
    assert scheme.upload_guarantee(CONTEXT).status == scheme.model_guarantee(CONTEXT).status == "invalid"
    assert scheme_notes(scheme, CONTEXT)[0].startswith(INVALID)
    # In a mean of four a neighbour moves a quarter of that.
    assert scheme.model_noise(CONTEXT, 0.5).sensitivity == pytest.approx(math.sqrt(10) / 4)
    assert scheme.model_noise(CONTEXT, 0.5).std == pytest.approx(math.sqrt(2) * 0.5)


def test_invalid_noise_without_a_proven_sensitivity_is_unbounded():
    literal = LaplaceNoise(epsilon=1, sensitivity_from="seed_literal")
    of_gradients = Mechanisms(client=literal, server=literal, clip=Clip(target="gradient"))
    assert of_gradients.upload_noise(CONTEXT, None, UPLOAD).sensitivity == math.inf
    assert of_gradients.model_noise(CONTEXT, None).sensitivity == math.inf
    assert 0 < of_gradients.upload_noise(CONTEXT, None, UPLOAD).std < math.inf
    uneven = replace(CONTEXT, equal_weights=False)
    assert Mechanisms(server=literal).model_noise(uneven, 1.0).sensitivity == math.inf
    assert Mechanisms(client=literal).upload_noise(uneven, 1.0, UPLOAD).sensitivity == pytest.approx(2 * math.sqrt(10))
    assert Mechanisms(server=GaussianNoise(epsilon=1)).model_noise(uneven, 1.0).sensitivity == 0.5, (
        "heuristic, not invalid"
    )


def test_server_noise_is_divided_by_the_number_of_updates():
    scheme = Mechanisms(server=GaussianNoise(epsilon=1))
    assert scheme.model_noise(CONTEXT, 1).sensitivity == 0.5
    assert scheme.model_noise(CONTEXT, 1).std == pytest.approx(3.730632 / 2, abs=1e-6)
    two = [UPLOAD, Contribution(client=4, samples=100)]
    assert scheme.model_noise(CONTEXT, 1, two).std == pytest.approx(3.730632, abs=1e-6)
    doubled = replace(CONTEXT, rate=2.0)
    assert scheme.model_noise(doubled, 1).std == pytest.approx(3.730632, abs=1e-6)
    assert scheme.upload_noise(CONTEXT, 1, UPLOAD).std == 0
    assert scheme.upload_guarantee(CONTEXT) is None
    assert scheme.upload_noise(CONTEXT, 1, UPLOAD).sensitivity == math.inf


def test_client_and_server_have_separate_budgets():
    scheme = Mechanisms(
        client=GaussianNoise(epsilon=2, delta=1e-4), server=LaplaceNoise(epsilon=3), clip=Clip(norm=0.1)
    )
    noise, of_server = scheme.upload_noise(CONTEXT, 0.1, UPLOAD), scheme.model_noise(CONTEXT, 0.1)
    assert (noise.distribution, of_server.distribution, scheme.clip_target.order) == ("gaussian", "laplace", 1)
    of_upload, of_model = scheme.upload_guarantee(CONTEXT), scheme.model_guarantee(CONTEXT)
    assert (of_upload.epsilon, of_upload.delta) == (2, 1e-4)
    assert (of_model.epsilon, of_model.delta) == (3, 0)
    assert scheme.model_noise(CONTEXT, 0.1).std == pytest.approx(math.sqrt(2) * 0.2 / 4 / 3)
    assert any("grows with the number of versions" in note for note in scheme.notes(CONTEXT))


def test_clipped_gradients_give_a_heuristic_sensitivity():
    scheme = of_client(GaussianNoise(epsilon=1), target="gradient", norm=2)
    assert scheme.start(CONTEXT).clip_norm(np.ones(2)) is None
    assert scheme.upload_noise(CONTEXT, None, UPLOAD).sensitivity == pytest.approx(0.04)
    guarantee = scheme.upload_guarantee(CONTEXT)
    assert (guarantee.unit, guarantee.neighbours, guarantee.status) == ("sample", "replace", "heuristic")
    assert [fault.field for fault in scheme.faults(5, 5, Training())] == ["clip.norm"]
    assert list(scheme.faults(5, 5, Training(gradient_clip=2.0))) == []
