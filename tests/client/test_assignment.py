"""The share of a task's epochs behind an update."""

import pytest

from asyncfl.client import work_of


def test_work_is_the_share_of_epochs_done() -> None:
    assert work_of([None, None], 4) is None
    assert work_of([], 4) is None
    found = work_of([None, 1, 2, 4], 4)
    assert found is not None
    assert found.tolist() == pytest.approx([1.0, 0.25, 0.5, 1.0])
