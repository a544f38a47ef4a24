import hashlib
import io
import zipfile

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec, download
from asyncfl.data.class_counts import count_classes
from asyncfl.data.folder import download_folder
from asyncfl.data.natural import NATURAL, uci_archive
from asyncfl.data.natural.adult import LEVELS, NUMBERS, VALUES, WIDTH

TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K
50, Self-emp-not-inc, 83311, Masters, 14, Married-civ-spouse, Exec-managerial, Husband, White, Male, 0, 0, 13, ?, >50K
28, ?, 338409, Bachelors, 13, Married-civ-spouse, ?, Wife, Black, Female, 0, 0, 40, Cuba, <=50K

"""  # noqa: E501
TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, United-States, >50K.

"""


def by(column, **fields):
    partition = {"kind": "by", "column": column}
    return DataSpec(**{"dataset": "adult", "clients": 3, "samples_per_client": None, "partition": partition, **fields})


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
        monkeypatch.setattr(uci_archive, "SHA256", {**own, **sums})
        monkeypatch.setitem(NATURAL, "adult", type(NATURAL["adult"])(**{**vars(NATURAL["adult"]), "official": 4}))
        return requests

    return serve


def test_adult_is_downloaded_scaled_and_one_hot_encoded(archived):
    requests = archived()
    (path,) = download.fetch(["adult"])
    assert requests == [(uci_archive.URL, uci_archive.TIMEOUT_S)]
    assert path == download_folder() / "adult.npz"
    spec = by("education", clients=2)
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.source, data.original) == ((WIDTH,), 2, "real", True)
    assert data.provenance == "Adult, complete (3 + 1 samples)"
    assert WIDTH == 108
    ones = data.images[:, len(NUMBERS) :]
    assert set(np.unique(ones)) == {0, 1}
    assert ones.sum(1).tolist() == [len(VALUES)] * 3
    assert sorted(data.labels.tolist()) == [0, 0, 1]
    assert data.test_labels.tolist() == [1]
    # By published constants, so that a row changes nothing but itself.
    np.testing.assert_allclose(data.test_images[0, 0], (25 - 38.58) / 13.64, rtol=1e-6)
    holdings = count_classes(spec, Streams(0))
    assert sorted(zip(holdings.owners, holdings.sizes.tolist(), strict=True)) == [("Bachelors", 2), ("Masters", 1)]
    assert holdings.class_names == ("<=50K", ">50K")


def test_unknown_cells_are_a_value(archived):
    archived()
    data = by("native-country", source="real").build(Streams(0))
    first = len(NUMBERS) + sum(len(values) for name, values in VALUES.items() if name != "native-country")
    assert data.images[:, first + VALUES["native-country"].index("?")].sum() == 1
    assert data.images[:, len(NUMBERS) + VALUES["workclass"].index("?")].sum() == 1


def test_unexpected_downloads_are_refused(archived):
    archived(**{"adult.test": uci_archive.SHA256["adult.test"]})
    with pytest.raises(DataError, match=r"adult\.test must have SHA-256 a2a9044b.*, put adult\.npz into the folder"):
        download.fetch(["adult"])
    archived(train=TRAIN.replace("Cuba", "Atlantis"))
    with pytest.raises(DataError, match=r"could not be downloaded \(ValueError: native-country must be one of United"):
        download.fetch(["adult"])
    assert not (download_folder() / "adult.npz").exists()


def test_the_stand_in_for_adult_resembles_the_original():
    spec = by("education", source="embedded", clients=16)
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.source, data.original) == ((108,), 2, "embedded", False)
    assert data.provenance.startswith("stand-in for Adult: people drawn to the shares of a census, with incomes by a")
    owners = dict(zip(count_classes(spec, Streams(0)).owners, data.sizes.tolist(), strict=True))
    assert sorted(owners) == sorted(LEVELS)
    assert owners["HS-grad"] > owners["Bachelors"] > owners["Doctorate"]
    rich = {level: data.client(place)[1].mean() for place, level in enumerate(count_classes(spec, Streams(0)).owners)}
    assert rich["Masters"] > 2 * rich["HS-grad"] > 2 * rich["9th"]
    assert 0.2 < data.labels.mean() < 0.3
    # The constants are those of the original, whose capital gains have a longer tail than the stand-in's.
    numbers = data.images[:, : len(NUMBERS)]
    assert np.abs(numbers.mean(0)).max() < 0.5
    assert 0.3 < numbers.std(0).min() < numbers.std(0).max() < 1.5
    for column in NATURAL["adult"].columns:
        assert by(column, source="embedded", clients=2).build(Streams(0)).clients == 2
    with pytest.raises(DataError, match=r"must be label or a column of Adult \(workclass, education, marital-status"):
        by("salary", source="embedded").build(Streams(0))
