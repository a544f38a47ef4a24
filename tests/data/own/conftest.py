"""Small data sets of the user's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import InputError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec


@pytest.fixture
def faults() -> Callable[..., list[str]]:
    """Function of a data set's description and further fields of `data` that returns the faults as text."""

    def found(dataset: Any, **fields: Any) -> list[str]:
        try:
            spec = DataSpec(**{"dataset": dataset, "clients": 2, "samples_per_client": 2, **fields})
            wrong = list(spec.faults())
            if not wrong:
                spec.build(Streams(0))
        except InputError as error:
            head = f"{error.source}: " if error.source else ""
            return [f"{head}{fault}" for fault in error.faults]
        return [str(fault) for fault in wrong]

    return found


@pytest.fixture
def npz(tmp_path: Path) -> Callable[..., str]:
    """Function that writes an npz file of twelve samples of three numbers, with arrays replaced (None: left out)."""

    def write(name: str = "mine.npz", **changed: Any) -> str:
        arrays = {"x_train": np.arange(36.0).reshape(12, 3), "y_train": np.arange(12) % 3, **changed}
        np.savez(tmp_path / name, **{key: value for key, value in arrays.items() if value is not None})
        return str(tmp_path / name)

    return write
