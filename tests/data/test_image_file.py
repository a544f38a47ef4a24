"""Files of images: of a data set by its name, and of one client of a live federation."""

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data import DataSpec, available
from asyncfl.data.catalog import CATALOG
from asyncfl.data.image_file import ImageFile
from asyncfl.data.sample_source import to_common_shape, to_float
from asyncfl.scenario import Scenario

MNIST = CATALOG["mnist"]


def faults_of(path):
    with pytest.raises(DataError) as caught:
        ImageFile(MNIST, path)
    assert caught.value.source == str(path)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_images_and_labels_are_read(save):
    images = np.arange(60 * 784).astype(np.uint8).reshape(60, 28, 28)
    source = ImageFile(MNIST, save(x_train=images))
    wanted = np.array([5, 3, 59])
    assert source.size("train") == 60
    assert source.size("test") == 20
    np.testing.assert_array_equal(source.images("train", wanted), images[wanted])
    np.testing.assert_array_equal(source.labels("train", wanted), [5, 3, 9])
    assert source.labels("test", wanted[:2]).dtype == np.int64


def test_only_a_file_of_the_official_size_is_the_original(save):
    other = ImageFile(MNIST, save())
    assert (other.is_original, other.provenance) == (False, "MNIST, not the complete original (60 + 20 images)")
    usps = ImageFile(CATALOG["usps"], save("usps", train=7291, test=2007))
    assert (usps.is_original, usps.provenance) == (True, "USPS, complete (7291 + 2007 images)")


def test_all_faults_are_reported_at_once(save):
    found = faults_of(save(x_train=np.zeros((60, 784), np.float32), y_train=None, y_test=np.zeros(20, np.float64)))
    assert found["x_train"] == "must be uint8 images of shape (n, 28, 28), n at least 1, got float32 (60, 784)"
    assert found["y_train"] == "is missing; the file has x_test, x_train, y_test"
    assert found["y_test"] == "must be integer labels of shape (n,), got float64 (20,)"


def test_labels_out_of_range(save):
    source = ImageFile(MNIST, save(y_train=np.full(60, 10, np.uint8)))
    with pytest.raises(DataError, match=r"y_train: must be labels 0\.\.9, got 10\.\.10"):
        source.labels("train", np.arange(3))


def test_damaged_contents_are_found_when_read(save):
    path = save()
    content = bytearray(path.read_bytes())
    content[5000:5100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match="x_train: cannot be read"):
        ImageFile(MNIST, path).images("train", np.arange(3))


def test_a_folder_or_dangling_link_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    (tmp_path / "mnist.npz").mkdir()
    (tmp_path / "usps.npz").symlink_to(tmp_path / "nowhere")
    for name, kind in (("mnist", "a folder"), ("usps", "a link to nothing")):
        with pytest.raises(DataError, match=rf"{name}\.npz: must be an npz file, but is {kind}"):
            Scenario.read({"data": {"dataset": name}, "protocol": {"kind": "sync", "rounds": 1}}).digest()
        (row,) = [row for row in available() if row["name"] == name]
        assert (row["train"], row["test"]) == (0, 0)
        assert kind in row["provenance"]


def content(**fields):
    return DataSpec(clients=2, samples_per_client=5, **fields).content_digest()


def test_other_contents_change_the_runs_identity(save, tmp_path):
    """The order and compression of the arrays do not matter."""
    path = save()
    described = {"data": {"dataset": "mnist", "clients": 2, "samples_per_client": 5}}
    first = content(dataset="mnist"), Scenario.read({**described, "protocol": {"kind": "sync", "rounds": 1}}).digest()
    with np.load(path) as archive:
        np.savez(path, **{key: archive[key] for key in reversed(archive.files)})
    assert content(dataset="mnist") == first[0]
    save(y_test=np.zeros(20, np.uint8))
    assert content(dataset="mnist") not in (None, first[0])
    assert Scenario.read({**described, "protocol": {"kind": "sync", "rounds": 1}}).digest() != first[1]
    assert content(dataset="mnist", source="embedded") is None


def test_standardised_by_hand():
    scaled = to_float(np.array([[[0, 255]]], np.uint8), MNIST.scale)
    np.testing.assert_allclose(scaled[0, 0, 0], [-0.1307 / 0.3081, 0.8693 / 0.3081], rtol=1e-5)


def test_channels_come_first_each_with_its_own_mean():
    images = np.zeros((2, 3, 4, 3), np.uint8)
    images[..., 1] = 255
    scaled = to_float(images, CATALOG["svhn"].scale)
    assert scaled.shape == (2, 3, 3, 4)
    assert scaled.flags.c_contiguous
    np.testing.assert_allclose(scaled[0, :, 0, 0], [-0.4377 / 0.198, 0.5562 / 0.201, -0.4728 / 0.197], rtol=1e-5)


def test_resampling_agrees_with_pillows_bilinear():
    image_module = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for side in (16, 32):
        image = rng.integers(0, 256, (side, side), dtype=np.uint8)
        theirs = image_module.fromarray(image).resize((28, 28), image_module.Resampling.BILINEAR)
        ours = to_common_shape(image[None])[0, :, :, 0]
        assert np.abs(np.asarray(theirs).astype(int) - ours.astype(int)).max() <= 1
