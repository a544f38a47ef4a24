from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.audit.shadow_worlds import ShadowPool, draw_worlds, shadow_pool, train_shadow
from asyncfl.client import Assignment
from asyncfl.federation import Federation
from asyncfl.scenario import Scenario
from asyncfl.simulation.run import prepared


@pytest.fixture
def federation(scenario: Scenario) -> Federation:
    return prepared(scenario.override({"privacy": {"kind": "nbafl", "epsilon": 50}, "data.test_samples": 200}), 0)


def test_a_shadow_has_the_upload_s_clip_norm_and_fresh_noise(federation: Federation) -> None:
    path, base = federation.path, federation.plan.initial
    assignments = [Assignment(number, client, 0, base, 0) for number, client in enumerate((2, 4))]
    payloads = path.carry_out(assignments, 0, base)
    upload, sent = payloads.uploads[0], payloads.models.copy()
    images, labels = federation.data.client(2)
    first = train_shadow(path, assignments[0], upload, images, labels, 0)
    np.testing.assert_array_equal(first, train_shadow(path, assignments[0], upload, images, labels, 0))
    other = train_shadow(path, assignments[0], upload, images, labels, 1)
    # Noise of its own: two of them differ by sqrt(2) of its deviation, and so does each from the upload.
    for one in (other, sent[0]):
        assert float((first - one).std()) == pytest.approx(2**0.5 * upload.added_std, rel=0.1)
    np.testing.assert_array_equal(payloads.models, sent)


def test_a_shadow_is_compressed_like_the_upload(scenario: Scenario) -> None:
    federation = prepared(scenario.override({"compression": {"kind": "top_k", "share": 0.1}}), 0)
    path, base = federation.path, federation.plan.initial
    assignment = Assignment(0, 2, 0, base, 0)
    upload = path.carry_out([assignment], 0, base).uploads[0]
    shadow = train_shadow(path, assignment, upload, *federation.data.client(2), 0)
    assert 0 < np.count_nonzero(shadow != base) <= 0.1 * len(base) + 1


def test_all_samples_are_used_before_one_is_used_again() -> None:
    pool = ShadowPool(np.zeros((9, 1, 1, 1), np.float32), np.zeros(9, np.int64), np.arange(9) < 3)
    drawn = list(draw_worlds(pool, 6, np.random.default_rng(1)))
    assert [int(world.sum()) for world in drawn] == [3] * 6
    for start in (0, 3):
        assert np.sum(drawn[start : start + 3], axis=0).tolist() == [1] * 9


def test_a_pool_takes_unused_samples_of_its_domain_label_by_label() -> None:
    data: Any = SimpleNamespace(
        client=lambda client: (np.zeros((3, 1), np.float32), np.array([4, 5, 4])),
        client_domains=np.array([1]),
        test_offsets=np.array([0, 2, 8]),
        test_labels=np.array([4, 5, 4, 4, 5, 5, 6, 4]),
        test_images=np.arange(8, dtype=np.float32)[:, None],
        classes=10,
    )
    left = np.array([True] * 8)
    left[3] = False
    pool = shadow_pool(data, 0, left, 5)
    # Of domain 1, whose samples are 2 to 7: a 4, a 5, a 4, and then a 4 (there is none any more) and a 5.
    assert pool.images[3:, 0].tolist() == [2, 4, 7, 5]
    assert pool.labels.tolist() == [4, 5, 4, 4, 5, 4, 5]
    assert pool.member.tolist() == [True] * 3 + [False] * 4
    assert left.tolist() == [True, True, False, False, False, False, True, False]
    data.classes = None
    left[:] = True
    assert shadow_pool(data, 0, left, 4).images[3:, 0].tolist() == [2, 3, 4, 5]
