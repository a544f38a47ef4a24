"""What share of a task's epochs updates come of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.client.assignment import work_of
from asyncfl.client.path import _scale_to, _stopped


def test_work_is_told_where_somebody_was_stopped() -> None:
    assert work_of([None, None], 4) is None
    assert work_of([], 4) is None
    found = work_of([None, 1, 2, 4], 4)
    assert found is not None
    assert found.tolist() == pytest.approx([1.0, 0.25, 0.5, 1.0])


def test_a_job_is_stopped_before_an_epoch_that_was_not_done_in_time() -> None:
    deadline: Any = SimpleNamespace(epochs_done=2)
    job: Any = SimpleNamespace(deadline=deadline)
    assert [_stopped(job, epochs) for epochs in (1, 2, 3)] == [False, False, True]
    assert not _stopped(SimpleNamespace(deadline=None), 9)  # type: ignore[arg-type]


def test_small_factors_are_multiplied_with_in_float64() -> None:
    long = (np.random.default_rng(0).random(50) * 1e30).astype(np.float32)
    for factor, exact in ((1e-30, False), (0.9e-30, True)):
        scaled = long.copy()
        _scale_to(scaled, factor, 1.0)
        ways = [long * np.float32(factor), (long.astype(np.float64) * factor).astype(np.float32)]
        assert (ways[0] != ways[1]).any()
        assert (scaled == ways[exact]).all()
