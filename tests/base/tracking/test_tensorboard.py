import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asyncfl.base.errors import OutputError
from asyncfl.base.tracking import TensorBoard, read_tracker


def test_writers_of_seeds_are_told_numbers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            self.name = Path(folder).relative_to(tmp_path)
            told.append((str(self.name), "begins", purge_step))

        def add_text(self, name: str, text: str) -> None:
            told.append((name, text))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def close(self) -> None:
            told.append("closed")

    module: Any = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    board = read_tracker(f"tensorboard:{tmp_path}")
    assert isinstance(board, TensorBoard)
    board.begin("0123", {"seeds": [4]})
    for version in (0, 1):
        told_of = {"test_loss": 2.5 - version, "test_accuracy": math.nan, "note": "text", "participants": 3}
        board.row({"seed": 4, "version": version, "diverged": False, **told_of})
    board.close()
    assert told == [
        ("0123/seed-4", "begins", 0),
        ("scenario", '```json\n{\n  "seeds": [\n    4\n  ]\n}\n```'),
        ("test_loss", 2.5, 0),
        ("participants", 3, 0),
        ("test_loss", 1.5, 1),
        ("participants", 3, 1),
        "closed",
    ]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        OutputError, match=r"--track tensorboard needs TensorBoard: pip install 'asyncfl\[tensorboard\]'"
    ):
        read_tracker("tensorboard:here")


def test_numbers_of_each_version_are_scalars(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
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
