from __future__ import annotations

import sys

import numpy as np
import pytest

from asyncfl.data import DataSpec
from asyncfl.data.own.base import source_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of CSV files in the way of the hub; nothing is asked of the network."""
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    place = tmp_path / "notes"
    place.mkdir()
    for split, number in (("train", 12), ("test", 4)):
        rows = [f"{row},{row % 5},{'spam' if row % 3 else 'ham'},w{row % 2}" for row in range(number)]
        (place / f"{split}.csv").write_text("\n".join(["a,b,label,writer", *rows]) + "\n", encoding="utf-8")
    return place


@pytest.mark.filterwarnings("ignore")
def test_columns_become_samples_and_others_are_there_for_partitions(folder):
    dataset = {"kind": "huggingface", "name": str(folder), "features": ["a", "b"]}
    found = source_of(DataSpec(dataset=dataset).dataset)
    assert (found.shape, found.class_names, found.columns) == ((2,), ("ham", "spam"), ("writer",))
    assert (found.size("train"), found.size("test")) == (12, 4)
    rows = found.images("train", np.arange(12))
    np.testing.assert_array_equal(rows, np.stack([np.arange(12), np.arange(12) % 5], axis=1))
    np.testing.assert_array_equal(found.labels("train", np.arange(12)), np.arange(12) % 3 > 0)


@pytest.mark.filterwarnings("ignore")
def test_what_is_wrong_is_named(folder, faults):
    dataset = {"kind": "huggingface", "name": str(folder), "features": ["a"]}
    assert faults({**dataset, "target": "labl"}) == [
        f"{folder}: target: must be a column, got 'labl'; did you mean label?"
    ]
    assert faults({**dataset, "features": ["writer"]}) == [
        f"{folder}: writer: must be numbers or pictures of one shape (), got <U2 () in row 0"
    ]
    (found,) = faults({**dataset, "split": "validation"})
    assert found.startswith(f"{folder}: split validation: cannot be loaded: ValueError: ")


def test_without_the_package_the_way_out_is_told(monkeypatch, faults):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert faults({"kind": "huggingface", "name": "nobody/nothing"}) == [
        "data.dataset: huggingface needs the package datasets, which is not installed; pip install 'asyncfl[data]'"
    ]
