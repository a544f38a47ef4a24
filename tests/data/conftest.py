"""Tests of data sets use empty data and cache folders, small files of known data sets, and small ones of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import InputError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.catalog import CATALOG


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty folder that ASYNCFL_DATA_DIR names."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def _arrays(name: str = "mnist", train: int = 60, test: int = 20) -> dict[str, np.ndarray]:
    """Arrays of a small file of the data set: random images, labels in turn."""
    rng = np.random.default_rng(0)
    shape = CATALOG[name].image_shape
    return {
        "x_train": rng.integers(0, 256, (train, *shape), dtype=np.uint8),
        "y_train": (np.arange(train) % 10).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, *shape), dtype=np.uint8),
        "y_test": (np.arange(test) % 10).astype(np.uint8),
    }


@pytest.fixture
def arrays() -> Callable[..., dict[str, np.ndarray]]:
    """Function of (name, train, test) that returns the arrays of a small file."""
    return _arrays


@pytest.fixture
def save(data_folder: Path) -> Callable[..., Path]:
    """Function that writes a small file, with arrays replaced (None: left out), and returns its path."""

    def write(name: str = "mnist", train: int = 60, test: int = 20, **changed: np.ndarray | None) -> Path:
        content = {**_arrays(name, train, test), **changed}
        path = data_folder / f"{name}.npz"
        np.savez_compressed(path, **{key: value for key, value in content.items() if value is not None})
        return path

    return write


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
