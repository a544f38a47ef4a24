"""SAFL's noise on uploads."""

import math
from dataclasses import replace

import pytest

from asyncfl.learning import Training
from asyncfl.privacy import Contribution, GaussianUpload, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.flags import OVERDRAWN
from asyncfl.privacy.ledger.releases import upload_release

SMALL, LARGE = Contribution(0, 300), Contribution(0, 600)
CONTEXT = PrivacyContext(clients=100, participants=10, rounds=50, smallest_samples=600, exposures=0)


@pytest.mark.parametrize(("delta", "sigma"), [(1e-5, 0.00269156), (0.01, 0.00172640)])
def test_noise_of_one_upload(delta, sigma):
    scheme = GaussianUpload(epsilon=6, delta=delta)
    assert scheme.upload_noise(CONTEXT, None, LARGE).std == pytest.approx(sigma, abs=5e-9)


def test_noise_follows_each_clients_own_samples_and_clip_norm():
    scheme = GaussianUpload(epsilon=6, clip_norm=3)
    few, many = scheme.upload_noise(CONTEXT, None, SMALL).std, scheme.upload_noise(CONTEXT, None, LARGE).std
    assert few == pytest.approx(2 * many)
    assert many == pytest.approx(3 * GaussianUpload(epsilon=6).upload_noise(CONTEXT, None, LARGE).std)


def test_a_total_budget_is_divided_by_the_versions():
    each, total = GaussianUpload(epsilon=6), GaussianUpload(epsilon=6, budget="total")
    assert total.upload_noise(CONTEXT, None, LARGE).std == pytest.approx(
        50 * each.upload_noise(CONTEXT, None, LARGE).std
    )
    assert (each.upload_guarantee(CONTEXT).releases, total.upload_guarantee(CONTEXT).releases) == (1, 50)


def test_uploads_are_not_clipped_and_the_server_adds_nothing():
    scheme = GaussianUpload(epsilon=6)
    assert scheme.start(CONTEXT).clip_norm([1.0]) is None
    assert scheme.model_noise(CONTEXT, None).std == 0
    assert scheme.model_guarantee(CONTEXT) is None
    assert scheme.assumed_exposures(50, 10, 100) == 0


def test_infinite_epsilon_is_off():
    scheme = GaussianUpload(epsilon=math.inf)
    assert scheme.upload_noise(CONTEXT, None, LARGE).std == 0
    assert scheme.upload_guarantee(CONTEXT) is None
    assert scheme.notes(CONTEXT) == []


def test_notes():
    assert any("every upload" in note for note in GaussianUpload(epsilon=6).notes(CONTEXT))
    assert not any("every upload" in n for n in GaussianUpload(epsilon=6, budget="total").notes(CONTEXT))
    assert not any("one release at" in note for note in GaussianUpload(epsilon=6).notes(CONTEXT))
    assert any("one release at 9" in note for note in GaussianUpload(epsilon=9).notes(CONTEXT))


def test_noise_after_each_epoch_is_as_many_releases_and_needs_plain_sgd():
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


def test_more_draws_than_are_claimed_are_named_with_what_they_are_worth():
    three, scheme = replace(CONTEXT, epochs=3), GaussianUpload(epsilon=6, noise="epoch")
    (note,) = [note for note in scheme.notes(three) if "noise: epoch" in note]
    assert "adds noise 3 times for each upload" in note
    assert "one upload is worth epsilon 10.9, not 6 as claimed" in note
    release = upload_release(scheme, three, None, LARGE)
    assert exact_epsilon(release.count / release.multiplier**2, 1e-5) == pytest.approx(10.9, abs=0.05)
    assert not any("noise: epoch" in note for note in scheme.notes(CONTEXT))
    assert not any("noise: epoch" in note for note in GaussianUpload(epsilon=6).notes(three))
    assert not scheme.model_copy(update={"epsilon": math.inf}).flags(three, math.inf)[1:]


def test_a_total_budget_may_bear_several_draws():
    # 150 draws with 50 times the noise of one.
    total, three = GaussianUpload(epsilon=12, budget="total", noise="epoch"), replace(CONTEXT, epochs=3)
    z = upload_release(total, three, None, LARGE).multiplier
    assert exact_epsilon(150 / z**2, 1e-5) < 12
    assert OVERDRAWN not in total.flags(three, 12)
    few = replace(three, rounds=2)
    assert exact_epsilon(6 / upload_release(total, few, None, LARGE).multiplier ** 2, 1e-5) > 12
    assert any("2 uploads are together worth" in note for note in total.notes(few))


def test_the_limit_of_a_total_budget_is_that_of_one_release():
    def past(scheme, rounds):
        return [note for note in scheme.notes(replace(CONTEXT, rounds=rounds)) if "classical calibration" in note]

    total = GaussianUpload(epsilon=12, budget="total")
    z = upload_release(total, replace(CONTEXT, rounds=2), None, LARGE).multiplier
    assert exact_epsilon(1 / z**2, 1e-5) <= 6
    assert past(total, 2) == []
    (note,) = past(total, 1)
    assert "one release at 12 " in note
    (note,) = past(GaussianUpload(epsilon=27, budget="total"), 3)
    assert "one release at 9 " in note
    assert past(GaussianUpload(epsilon=12), 3)
