import sys
import types

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec, available, download
from asyncfl.data.class_counts import count_classes
from asyncfl.data.folder import download_folder
from asyncfl.data.natural import NATURAL
from asyncfl.data.natural.catalog import CHARACTERS, LETTERS


def by(name, **fields):
    partition = {"kind": "by", "column": NATURAL[name].columns[0]}
    return DataSpec(**{"dataset": name, "clients": 6, "samples_per_client": None, "partition": partition, **fields})


def test_labels_of_shakespeare_are_the_next_characters():
    spec = by("shakespeare", source="embedded")
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.original, data.source) == ((80,), 80, False, "embedded")
    assert data.provenance.startswith("stand-in for Shakespeare: sentences made of a few words by 100 roles")
    assert len(set(data.sizes.tolist())) > 3
    texts = ["".join(CHARACTERS[int(one)] for one in window) for window in data.images]
    starts = {text: CHARACTERS[label] for text, label in zip(texts, data.labels, strict=True)}
    followed = sum(text[1:] + starts[text] in starts for text in starts)
    assert followed > len(starts) / 2  # the fifth to test on is missing in between
    assert "\n" in "".join(texts)
    assert set("".join(texts)) <= set(CHARACTERS)


def test_writers_differ_in_stroke_width():
    spec = by("femnist", source="embedded", samples_per_client=40)
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, len(LETTERS)) == ((1, 28, 28), 62, 62)
    assert data.sizes.tolist() == [40] * 6
    ink = np.array([data.client(client)[0].mean((1, 2, 3)) for client in range(6)])
    # Writers differ in the width of their strokes more than their samples do.
    assert ink.mean(1).var() > 0.1 * ink.var(1).mean()
    again = spec.build(Streams(0))
    np.testing.assert_array_equal(data.images, again.images)
    assert data.provenance.startswith("stand-in for FEMNIST: ")


def test_files_are_part_of_the_runs_identity_and_stand_ins_are_not(data_folder):
    spec = by("shakespeare", clients=2)
    assert (spec.resolve_source(), spec.content_digest()) == ("embedded", None)
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 80, (50, 80), dtype=np.uint8),
        "y_train": rng.integers(0, 80, 50, dtype=np.uint8),
        "role_train": np.repeat(["HAMLET", "PUCK"], 25),
    }
    np.savez(data_folder / "shakespeare.npz", **arrays)
    assert spec.resolve_source() == "real"
    assert len(spec.content_digest()) == 64
    holdings = count_classes(spec, Streams(0))
    assert sorted(holdings.owners) == ["HAMLET", "PUCK"]
    assert holdings.provenance == "Shakespeare, not the complete original (40 + 10 samples)"
    (row,) = [row for row in available() if row["name"] == "shakespeare"]
    assert (row["source"], row["train"], row["test"]) == ("real", 40, 10)
    del arrays["role_train"]
    np.savez(data_folder / "shakespeare.npz", **arrays)
    with pytest.raises(DataError, match=r"shakespeare\.npz: role_train: is missing; it says whose each sample is"):
        spec.build(Streams(0))


class Rows(list):
    """Rows as `datasets` returns them."""

    def with_format(self, kind):
        return self


def hub(monkeypatch, name, rows):
    requests = []

    def load_dataset(where, split):
        requests.append((where, split))
        return Rows(rows)

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    about = NATURAL[name]
    changed = type(about)(**{**vars(about), "official": len(rows)})
    monkeypatch.setitem(NATURAL, name, changed)
    return requests


def test_femnist_is_fetched_from_the_hub(monkeypatch):
    pictures = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    rows = [{"image": one, "writer_id": f"f{n % 2}", "character": n} for n, one in enumerate(pictures)]
    requests = hub(monkeypatch, "femnist", rows)
    (path,) = download.fetch(["femnist"])
    assert requests == [("flwrlabs/femnist", "train")]
    assert path == download_folder() / "femnist.npz"
    data = by("femnist", clients=2, scaling="unit").build(Streams(0))
    assert (data.source, data.original, data.classes) == ("real", True, 62)
    np.testing.assert_allclose(data.images[0, 0] * 255, 255.0 - pictures[data.labels[0]], atol=1e-3)
    assert download.fetch(["femnist"]) == [path]
    assert len(requests) == 1


def test_shakespeare_is_fetched_from_the_hub(monkeypatch):
    text = "To be, or not to be: that is the question; whether 'tis nobler in the mind to suffer ~ or"
    rows = [{"x": text[:80], "y": text[80], "character_id": "HAMLET"}, {"x": "short", "y": "~", "character_id": "PUCK"}]
    hub(monkeypatch, "shakespeare", rows)
    with np.load(download.fetch(["shakespeare"])[0]) as saved:
        read = ["".join(CHARACTERS[one] for one in window) for window in saved["x_train"]]
        assert read == [text[:80], " " * 75 + "short"]
        assert [CHARACTERS[one] for one in saved["y_train"]] == [text[80], " "]
        assert saved["role_train"].tolist() == ["HAMLET", "PUCK"]


def test_failed_downloads_say_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"downloaded by the package datasets, which is not installed; pip install"):
        download.fetch(["femnist"])

    def fail(*_, **__):
        raise ConnectionError("no\nroute")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=fail))
    with pytest.raises(
        DataError, match=r"FEMNIST could not be downloaded \(ConnectionError: no route\); check the net"
    ):
        by("femnist", source="real").build(Streams(0))
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=lambda *_, **__: Rows([1])))
    with pytest.raises(DataError, match="FEMNIST must have 814277 samples, got 1; fetch it again"):
        download.fetch(["femnist"])
