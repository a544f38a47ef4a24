from __future__ import annotations

import math
from pathlib import Path

import pytest

from asyncfl.tracking.tensorboard import TensorBoard

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def test_numbers_of_each_version_are_scalars(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    board.begin("0123456789abcdef", {"seeds": [0, 1]})
    for seed in (0, 1):
        for version in (0, 1):
            row = {"seed": seed, "version": version, "diverged": False, "test_loss": 2.0 - version}
            board.row({**row, "test_accuracy": math.nan, "participants": 3})
    board.close()
    for seed in (0, 1):
        found = accumulator.EventAccumulator(str(tmp_path / "0123456789abcdef" / f"seed-{seed}"))
        found.Reload()
        assert found.Tags()["scalars"] == ["test_loss", "participants"]
        assert [(one.step, one.value) for one in found.Scalars("test_loss")] == [(0, 2.0), (1, 1.0)]
