import hashlib
import io
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec, available, download
from asyncfl.data.catalog import ARRAY_SETS, CHARACTERS, LETTERS, download_folder
from asyncfl.data.class_counts import count_classes


def by(name, column=None, **fields):
    partition = {"kind": "by", "column": column or ARRAY_SETS[name].columns[0]}
    return DataSpec(**{"dataset": name, "clients": 6, "samples_per_client": None, "partition": partition, **fields})


@pytest.mark.parametrize(("name", "title"), [("shakespeare", "Shakespeare"), ("adult", "Adult")])
def test_texts_and_tables_have_no_stand_in(name, title):
    with pytest.raises(DataError) as caught:
        by(name).build(Streams(0))
    assert str(caught.value) == (
        f"data.dataset: {title} is not on disk and has no stand-in: download it with asyncfl data fetch {name}, or "
        f"put {name}.npz into the folder that ASYNCFL_DATA_DIR names"
    )
    (fault,) = by(name, source="embedded").faults()
    assert str(fault) == f"source: must be auto or real for {title}, which has no stand-in, got embedded"
    assert next(row["source"] for row in available() if row["name"] == name) == "missing"


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
    assert (by("femnist").resolve_source(), by("femnist").content_digest()) == ("embedded", None)
    spec = by("shakespeare", clients=2)
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
    about = ARRAY_SETS[name]
    changed = type(about)(**{**vars(about), "official": len(rows)})
    monkeypatch.setitem(ARRAY_SETS, name, changed)
    return requests


def test_femnist_is_fetched_from_the_hub(monkeypatch):
    pictures = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    rows = [{"image": one, "writer_id": f"f{n % 2}", "character": n} for n, one in enumerate(pictures)]
    requests = hub(monkeypatch, "femnist", rows)
    (path,) = download.fetch(["femnist"])
    assert requests == [("flwrlabs/femnist", "train")]
    assert path == Path(download_folder()) / "femnist.npz"
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


TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K
50, Self-emp-not-inc, 83311, Masters, 14, Married-civ-spouse, Exec-managerial, Husband, White, Male, 0, 0, 13, ?, >50K
28, ?, 338409, Bachelors, 13, Married-civ-spouse, ?, Wife, Black, Female, 0, 0, 40, Cuba, <=50K

"""  # noqa: E501
TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, United-States, >50K.

"""


@pytest.fixture
def archived(monkeypatch):
    """Function that serves the given files instead of the archive's, with their checksums."""

    def serve(train=TRAIN, test=TEST, **sums):
        files = {"adult.data": train.encode(), "adult.test": test.encode()}
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as made:
            for name, text in files.items():
                made.writestr(name, text)
        requests = []

        def urlopen(url, timeout):
            requests.append((url, timeout))
            return io.BytesIO(content.getvalue())

        monkeypatch.setattr("urllib.request.urlopen", urlopen)
        own = {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}
        monkeypatch.setattr(download, "ADULT_SHA256", {**own, **sums})
        monkeypatch.setitem(
            ARRAY_SETS, "adult", type(ARRAY_SETS["adult"])(**{**vars(ARRAY_SETS["adult"]), "official": 4})
        )
        return requests

    return serve


def test_adult_is_downloaded_scaled_and_one_hot_encoded(archived):
    requests = archived()
    (path,) = download.fetch(["adult"])
    assert requests == [(download.ADULT_URL, download.TIMEOUT_S)]
    assert path == Path(download_folder()) / "adult.npz"
    spec = by("adult", "education", clients=2)
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.source, data.original) == ((30,), 2, "real", True)
    assert data.provenance == "Adult, complete (3 + 1 samples)"
    ones = data.images[:, 6:]
    assert set(np.unique(ones)) == {0, 1}
    assert ones.sum(1).tolist() == [8] * 3
    assert sorted(data.labels.tolist()) == [0, 0, 1]
    assert data.test_labels.tolist() == [1]
    # By published constants, so that a row changes nothing but itself.
    np.testing.assert_allclose(data.test_images[0, 0], (25 - 38.58) / 13.64, rtol=1e-6)
    holdings = count_classes(spec, Streams(0))
    assert sorted(zip(holdings.owners, holdings.sizes.tolist(), strict=True)) == [("Bachelors", 2), ("Masters", 1)]
    assert holdings.class_names == ("<=50K", ">50K")


def test_unexpected_downloads_are_refused(archived):
    archived(**{"adult.test": download.ADULT_SHA256["adult.test"]})
    with pytest.raises(DataError, match=r"adult\.test must have SHA-256 a2a9044b.*, put adult\.npz into the folder"):
        download.fetch(["adult"])
    assert not (Path(download_folder()) / "adult.npz").exists()
