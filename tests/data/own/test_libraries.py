"""Data sets of scikit-learn and of the Hugging Face hub."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.catalog import ARRAY_SETS
from asyncfl.data.own.dataset import load_source

KNOWN = {
    "breast_cancer": ((30,), 2, 569),
    "digits": ((1, 8, 8), 10, 1797),
    "iris": ((4,), 3, 150),
    "wine": ((13,), 3, 178),
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_a_data_set_of_scikit_learn_is_complete(name):
    spec = DataSpec(dataset=name, clients=3, samples_per_client=None)
    shape, classes, samples = KNOWN[name]
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.original, data.source) == (shape, classes, True, "real")
    tested = round(samples / 5)
    assert len(data.test_labels) == tested
    assert len(data.labels) == (samples - tested) // 3 * 3
    assert set(data.labels.tolist()) == set(range(classes))
    assert np.abs(data.test_images.mean()) < 1e-5
    assert data.test_images.std() == pytest.approx(1, abs=0.1)
    assert data.images.std() == pytest.approx(1, abs=0.2)
    assert spec.names == (name,)
    assert data.provenance.startswith(ARRAY_SETS[name].title)


def test_diabetes_is_a_regression():
    spec = DataSpec(dataset="diabetes", clients=3, samples_per_client=None)
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, spec.outputs, data.outputs) == ((10,), 0, 1, 1)
    assert (data.labels.shape, data.test_labels.shape, data.labels.dtype) == ((354, 1), (88, 1), np.float32)
    assert data.provenance == "Diabetes of Efron et al. (2004) (354 + 88 samples; target minus 149.9, over 76.52)"
    raw = {"kind": "scikit_learn", "name": "diabetes", "standardised": False}
    plain = DataSpec(dataset=raw, clients=1, samples_per_client=None).build(Streams(0))
    assert (plain.labels.min(), plain.labels.max()) == (25, 346)
    np.testing.assert_allclose(plain.labels.mean(), 152.7, atol=0.05)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of CSV files that `datasets` reads without network."""
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
def test_feature_columns_become_samples_and_others_serve_partitions(folder):
    dataset = {"kind": "huggingface", "name": str(folder), "features": ["a", "b"]}
    found = load_source(DataSpec(dataset=dataset).dataset)
    assert (found.shape, found.class_names, found.columns) == ((2,), ("ham", "spam"), ("writer",))
    assert (found.size("train"), found.size("test")) == (12, 4)
    rows = found.images("train", np.arange(12))
    np.testing.assert_array_equal(rows, np.stack([np.arange(12), np.arange(12) % 5], axis=1))
    np.testing.assert_array_equal(found.labels("train", np.arange(12)), np.arange(12) % 3 > 0)


class Rows(dict):
    """A split as `datasets` hands it out: columns by name."""

    def __init__(self, columns, names=None):
        super().__init__(columns)
        self.column_names = list(columns)
        self.features = {name: SimpleNamespace(**({"names": names} if names else {})) for name in columns}


@pytest.fixture
def hub(monkeypatch):
    """Function that replaces `datasets` by the given splits and returns the list of requests."""

    def put(**splits):
        requests = []

        def load(name, subset, split, revision):
            requests.append((name, subset, split, revision))
            return splits[split]

        module = SimpleNamespace(load_dataset=load, disable_progress_bars=lambda: None)
        monkeypatch.setitem(sys.modules, "datasets", module)
        return requests

    return put


def test_a_feature_column_may_hold_numbers_lists_or_images(hub):
    described = {"kind": "huggingface", "subset": "small", "revision": "c0ffee", "test_split": None}
    labels = [row % 2 for row in range(10)]
    for values, shape in (
        (list(range(10)), (1,)),
        ([[row, 2 * row] for row in range(10)], (2,)),
        ([np.full((4, 6), row, np.uint8) for row in range(10)], (1, 4, 6)),
        ([np.full((4, 6, 3), row, np.uint8) for row in range(10)], (3, 4, 6)),
    ):
        requests = hub(train=Rows({"image": values, "label": labels}, ["even", "odd"]))
        found = load_source(DataSpec(dataset={**described, "name": f"a/{shape}"}).dataset)
        assert (found.shape, found.class_names, found.columns) == (shape, ("even", "odd"), ())
        assert (found.size("train"), found.size("test")) == (8, 2)
        assert set(requests) == {(f"a/{shape}", "small", "train", "c0ffee")}
        rows = np.concatenate([found.images(split, np.arange(found.size(split))) for split in ("train", "test")])
        assert sorted(rows.reshape(10, -1)[:, 0].tolist()) == list(range(10))


def test_errors_of_the_hub_are_shortened_to_one_line(monkeypatch, faults):
    def load(name, subset, split, revision):
        raise ConnectionError("no way\n  to " + "x " * 200)

    module = SimpleNamespace(load_dataset=load, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", module)
    (found,) = faults({"kind": "huggingface", "name": "a/b"})
    reason = "ConnectionError: no way to " + "x " * 80
    assert found == f"a/b: split train: cannot be loaded: {reason}...{' x' * 5}"
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert faults({"kind": "huggingface", "name": "a/c"}) == [
        "data.dataset: huggingface needs the package datasets, which is not installed; pip install 'asyncfl[data]'"
    ]
