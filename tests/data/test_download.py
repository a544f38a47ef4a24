import itertools
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_sample_images

from asyncfl.base.errors import DataError, OutputError
from asyncfl.base.streams import Streams
from asyncfl.base.torchvision_parts import torchvision_part
from asyncfl.data import CATALOG, DataSpec, download
from asyncfl.data.catalog import download_folder, find


@pytest.fixture
def torchvision(monkeypatch, arrays):
    """Replace downloads by small arrays; the list of requests."""
    requests = []

    def maker(class_name):
        def make(root, download, train=None, split=None):
            assert download
            assert split in ((None, "balanced")[class_name == "EMNIST"], "train", "test")
            which = ("train" if train else "test") if train is not None else split
            requests.append((class_name, which))
            name = next(d.name for d in CATALOG.values() if d.torchvision == class_name)
            content = arrays(name)
            images, labels = content[f"x_{which}"], content[f"y_{which}"]
            if class_name == "SVHN":
                return types.SimpleNamespace(data=images.transpose(0, 3, 1, 2), labels=labels)
            if class_name == "EMNIST":
                images = images.transpose(0, 2, 1)
            return types.SimpleNamespace(data=images, targets=list(labels))

        return make

    names = ("MNIST", "FashionMNIST", "USPS", "SVHN", "CIFAR10", "CIFAR100", "EMNIST")
    fake = types.SimpleNamespace(**{name: maker(name) for name in names})
    monkeypatch.setattr(download, "torchvision_part", lambda part: fake)
    return requests


@pytest.mark.parametrize("name", download.TORCHVISION)
def test_downloaded_files_can_be_used(torchvision, arrays, name):
    (path,) = download.fetch([name])
    assert path == Path(download_folder()) / f"{name}.npz"
    with np.load(path) as saved:
        for key, array in arrays(name).items():
            np.testing.assert_array_equal(saved[key], array)
    assert [p.name for p in Path(download_folder()).iterdir()] == [path.name]
    assert DataSpec(dataset=name, clients=2, samples_per_client=5).build(Streams(0)).source == "real"


def test_mnist_m_is_the_difference_of_a_digit_and_a_photograph(torchvision, save):
    digits = np.zeros((60, 28, 28), np.uint8)
    digits[:, 8:20, 8:20] = 255
    save("mnist", x_train=digits)
    (path,) = download.fetch(["mnist_m"])
    with np.load(path) as saved:
        images, labels = saved["x_train"], saved["y_train"]
    assert images.shape == (60, 28, 28, 3)
    np.testing.assert_array_equal(labels, np.arange(60) % 10)
    photographs = load_sample_images().images
    top, found = images[0, :8].astype(int), []
    for photograph, step, turned in itertools.product(photographs, (1, 2), (1, -1)):
        whole = photograph[:, ::turned].astype(int)
        sparse = [whole[a::step, b::step] for a, b in itertools.product(range(step), repeat=2)]
        for one in sparse:
            corners = np.argwhere((one[:-27, :-27] == top[0, 0]).all(-1))
            found += [one[y : y + 28, x : x + 28] for y, x in corners if (one[y : y + 8, x : x + 28] == top).all()]
    assert any((np.abs(patch - digits[0][..., None]) == images[0]).all() for patch in found)
    assert torchvision == []
    data = DataSpec(dataset="mnist_m", clients=2, samples_per_client=5).build(Streams(0))
    assert (data.source, data.original) == ("real", False)
    assert "made by its published recipe" in data.provenance


def test_all_names_without_download_are_reported(torchvision):
    with pytest.raises(DataError) as caught:
        download.fetch(["mnist", "street_digits", "cifra"])
    messages = {fault.field: fault.message for fault in caught.value.faults}
    assert messages["street_digits"].startswith("cannot be downloaded through torchvision")
    assert messages["cifra"].startswith("is not a data set that can be downloaded; known are mnist,")
    assert torchvision == []


def test_a_failed_download_leaves_no_file(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("Error downloading x:\nlong\ntale")

    monkeypatch.setattr(download, "torchvision_part", lambda part: types.SimpleNamespace(MNIST=fail))
    with pytest.raises(
        DataError, match=r"MNIST could not be downloaded \(RuntimeError: Error downloading x: long tale\); check"
    ):
        download.fetch(["mnist"])
    assert list(Path(download_folder()).iterdir()) == []


def test_an_unwritable_cache_is_an_output_error(torchvision, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(OutputError, match="cannot be written"):
        download.fetch(["mnist"])


def test_data_sets_work_without_torchvisions_kernels(tmp_path, monkeypatch):
    """A torchvision that fails on registering its kernels unless the module that does so is an empty one."""
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("from torchvision import _meta_registrations, datasets\n")
    (package / "_meta_registrations.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    (package / "datasets.py").write_text("MNIST = 'here'\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert torchvision_part("datasets").MNIST == "here"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]


def test_the_users_folder_is_searched_before_the_downloads(data_folder):
    assert find("mnist") is None
    downloads = Path(download_folder())
    downloads.mkdir(parents=True)
    (downloads / "mnist.npz").touch()
    assert find("mnist") == downloads / "mnist.npz"
    (data_folder / "mnist.npz").touch()
    assert find("mnist") == data_folder / "mnist.npz"


def test_a_missing_data_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"ASYNCFL_DATA_DIR must name a folder.*nowhere"):
        find("mnist")
