from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.api import execute
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.base.instrument import Instrument
from asyncfl.client import Assignment
from asyncfl.extras.audit.finished_run import FinishedRun, read_attacks
from asyncfl.extras.audit.membership import (
    LAST_MODEL,
    LIKELIHOOD,
    UPLOAD_LOSS,
    ShadowPool,
    audit_membership,
    likelihood_ratio,
    save,
    train_shadow,
)
from asyncfl.scenario import Scenario
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.simulate import prepared


class ProgressReports(Instrument):
    """Instrument that stores the progress of computations."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int | None]] = []

    def progress(self, what: str, done: int, of: int | None) -> None:
        self.reports.append((what, done, of))

    def of(self, what: str) -> list[tuple[str, int, int | None]]:
        return [report for report in self.reports if report[0] == what]


def finished(folder: Path, tiny: dict[str, Any], **fields: Any) -> FinishedRun:
    described = {
        **tiny,
        "data": tiny["data"] | {"test_samples": 400},
        "model": {"kind": "mlp", "hidden": [32]},
        "training": {"lr": 0.1, "batch_size": 10, "epochs": 10},
        "world": tiny["world"] | {"tap": {"uplink": True}},
        **fields,
    }
    return FinishedRun.load(execute(Scenario.read(described), folder / "run"))


def test_without_noise_members_are_found_and_the_ratio_finds_most(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny)
    audit = audit_membership(run, run.seeds(), shadow_worlds=16)
    rows = {row["attack"]: row for row in audit.found.to_pylist()}
    assert set(rows) == {LAST_MODEL, UPLOAD_LOSS, LIKELIHOOD}
    assert rows[LIKELIHOOD]["area"] > 0.7
    assert rows[LIKELIHOOD]["area"] > rows[UPLOAD_LOSS]["area"]
    for row in rows.values():
        assert row["false_positives"] <= 0.01 * row["others"]
        assert row["rate_low"] <= row["true_positive_rate"] <= row["rate_high"]
        assert row["others"] >= 200
    assert [rows[name]["adversary"] for name in (LAST_MODEL, LIKELIHOOD)] == ["public_last", "eavesdropper"]
    drawn = save(run, audit)
    assert [path.name for path in drawn] == ["roc-seed-0.svg", "roc-seed-0.png", "roc-seed-0.pdf"]
    first = [path.read_bytes() for path in drawn]
    reports = ProgressReports()
    again = audit_membership(run, (0,), shadow_worlds=16, instruments=[reports])
    assert [path.read_bytes() for path in save(run, again)] == first
    assert reports.of("shadow worlds of seed 0") == [("shadow worlds of seed 0", number, 80) for number in range(81)]
    written = read_attacks(run.folder)
    assert written is not None
    assert written["method"].to_pylist() == ["membership"] * 3


def test_strong_noise_hides_members(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny, privacy={"kind": "nbafl", "epsilon": 5})
    rows = audit_membership(run, run.seeds(), "server", shadow_worlds=8).found.to_pylist()
    assert all(abs(row["area"] - 0.5) < 0.15 for row in rows)
    assert rows[1]["adversary"] == "server"


def test_impossible_attacks_are_refused(tmp_path: Path, tiny: dict[str, Any]) -> None:
    run = finished(tmp_path, tiny, world=tiny["world"])
    with pytest.raises(RunError, match=r"the eavesdropper holds no upload .*set world.tap.uplink"):
        audit_membership(run, (0,))
    with pytest.raises(ScenarioError, match="--worlds: must be at least 8, got 3"):
        audit_membership(run, (0,), "server", shadow_worlds=3)
    few = finished(tmp_path / "few", tiny, data=tiny["data"] | {"test_samples": 199})
    with pytest.raises(RunError, match=r"at least 200 non-members, and the test set has 199; raise data.test_samples"):
        audit_membership(few, (0,))


def test_the_ratio_has_a_variance_for_members_and_one_for_non_members() -> None:
    # Two samples: in around 4 and 10 (variance (2 + 8)/2), out around 0 and 2 (variance (2 + 0)/2).
    included = np.array([[True, True], [True, True], [False, False], [False, False]])
    shadows = np.array([[3.0, 8.0], [5.0, 12.0], [-1.0, 2.0], [1.0, 2.0]])
    of_in, of_out = (2 + 8) / 2, (2 + 0) / 2
    expected = [
        (x - out) ** 2 / (2 * of_out) - (x - mean) ** 2 / (2 * of_in) + np.log(of_out / of_in) / 2
        for x, mean, out in ((1.0, 4.0, 0.0), (7.0, 10.0, 2.0))
    ]
    assert likelihood_ratio(np.array([1.0, 7.0]), shadows, included) == pytest.approx(expected)
    # A sample in fewer than two worlds has ratio 0, and does not change the others.
    third = np.array([True, False, False, False])[:, None]
    more = likelihood_ratio(
        np.array([1.0, 7.0, 5.0]), np.hstack([shadows, [[9.0], [0.0], [50.0], [0.0]]]), np.hstack([included, third])
    )
    assert more == pytest.approx([*expected, 0.0])
    assert likelihood_ratio(np.array([5.0]), shadows[:, :1], ~third).tolist() == [0.0]


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
    drawn = list(pool.worlds(6, np.random.default_rng(1)))
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
    pool = ShadowPool.draw(data, 0, left, 5)
    # Of domain 1, whose samples are 2 to 7: a 4, a 5, a 4, and then a 4 (there is none any more) and a 5.
    assert pool.images[3:, 0].tolist() == [2, 4, 7, 5]
    assert pool.labels.tolist() == [4, 5, 4, 4, 5, 4, 5]
    assert pool.member.tolist() == [True] * 3 + [False] * 4
    assert left.tolist() == [True, True, False, False, False, False, True, False]
    data.classes = None
    left[:] = True
    assert ShadowPool.draw(data, 0, left, 4).images[3:, 0].tolist() == [2, 3, 4, 5]
