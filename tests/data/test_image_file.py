import zipfile
from dataclasses import replace

import numpy as np
import pytest

from asyncfl.data import DataSpec, available
from asyncfl.data.catalog import CATALOG
from asyncfl.data.image_file import ImageFileSource
from asyncfl.errors import DataError
from asyncfl.scenario import Scenario

MNIST = CATALOG["mnist"]


def faults_of(path):
    with pytest.raises(DataError) as caught:
        ImageFileSource(MNIST, path)
    assert caught.value.source == str(path)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_reads_what_was_saved(save):
    images = np.arange(60 * 784).astype(np.uint8).reshape(60, 28, 28)
    source = ImageFileSource(MNIST, save(x_train=images))
    wanted = np.array([5, 3, 59])
    assert source.size("train") == 60
    assert source.size("test") == 20
    np.testing.assert_array_equal(source.images("train", wanted), images[wanted])
    np.testing.assert_array_equal(source.labels("train", wanted), [5, 3, 9])
    assert source.labels("test").dtype == np.int64


@pytest.mark.parametrize("name", list(CATALOG))
def test_every_data_set_has_its_own_shape(save, name):
    source = ImageFileSource(CATALOG[name], save(name))
    assert source.images("test", np.arange(2)).shape == (2, *CATALOG[name].image_shape)


def test_a_file_of_another_size_is_not_the_original(save):
    source = ImageFileSource(MNIST, save())
    assert not source.is_original
    assert source.provenance == "MNIST, not the complete original (60 + 20 images)"


def test_official_size_is_the_original(save):
    usps = CATALOG["usps"]
    source = ImageFileSource(usps, save("usps", train=7291, test=2007))
    assert source.is_original
    assert source.provenance == "USPS, complete (7291 + 2007 images)"


def test_all_faults_are_reported_at_once(save):
    found = faults_of(save(x_train=np.zeros((60, 784), np.float32), y_train=None, y_test=np.zeros(20, np.float64)))
    assert found["x_train"] == "must be uint8 images of shape (n, 28, 28), n at least 1, got float32 (60, 784)"
    assert found["y_train"] == "is missing; the file has x_test, x_train, y_test"
    assert found["y_test"] == "must be integer labels of shape (n,), got float64 (20,)"


def test_labels_must_match_images(save):
    found = faults_of(save(y_test=np.zeros(19, np.uint8)))
    assert found == {"y_test": "must have one label per image (20), got 19"}


def test_scalar_and_empty_arrays_are_faults(save):
    found = faults_of(save(y_train=np.uint8(3), x_test=np.zeros((0, 28, 28), np.uint8), y_test=np.zeros(0, np.uint8)))
    assert found == {
        "y_train": "must be integer labels of shape (n,), got uint8 ()",
        "x_test": "must be uint8 images of shape (n, 28, 28), n at least 1, got uint8 (0, 28, 28)",
    }
    scalar = faults_of(save(x_train=np.uint8(3)))
    assert scalar == {"x_train": "must be uint8 images of shape (n, 28, 28), n at least 1, got uint8 ()"}


def test_labels_out_of_range(save):
    source = ImageFileSource(MNIST, save(y_train=np.full(60, 10, np.uint8)))
    with pytest.raises(DataError, match=r"y_train: must be labels 0\.\.9, got 10\.\.10"):
        source.labels("train")


def test_no_zip_at_all(save):
    path = save()
    path.write_text("<html>not found</html>")
    assert "damaged" in faults_of(path)[""]


def test_cut_off_file(save):
    path = save()
    path.write_bytes(path.read_bytes()[:-200])
    assert "damaged" in faults_of(path)[""]


def test_flipped_bytes_are_found_when_read(save):
    path = save()
    content = bytearray(path.read_bytes())
    content[5000:5100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match="x_train: cannot be read"):
        ImageFileSource(MNIST, path).images("train", np.arange(3))


def test_a_file_that_is_damaged_later_is_told_when_its_contents_are_asked_for(save):
    path = save()
    source = ImageFileSource(MNIST, path)
    assert (source.name, source.title, len(source.content)) == ("mnist", "MNIST", 32)
    path.write_bytes(b"")
    with pytest.raises(
        DataError, match=r"mnist\.npz: cannot be read \(File is not a zip file\); the file is damaged, "
    ):
        _ = source.content


def test_an_array_that_is_cut_off_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "mnist.npz", "w") as made:
        for name in ("x_train", "y_train", "x_test"):
            made.writestr(f"{name}.npy", b"\x93NUMPY")
    found = faults_of(tmp_path / "mnist.npz")
    assert list(found) == ["x_train", "y_train", "x_test", "y_test"]
    assert found["x_train"].startswith(
        "cannot be read (EOF: reading magic string, expected 8 bytes got 6); the file is"
    )
    assert found["y_test"] == "is missing; the file has x_test, x_train, y_train"


def test_headers_of_newer_files_are_read_too(save, tmp_path):
    arrays = np.load(save())
    with zipfile.ZipFile(tmp_path / "newer.npz", "w") as made:
        for name in arrays.files:
            with made.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, arrays[name], version=(2, 0))
    assert (
        ImageFileSource(MNIST, tmp_path / "newer.npz").provenance == "MNIST, not the complete original (60 + 20 images)"
    )


def test_pickled_objects_are_refused(save):
    found = faults_of(save(x_train=np.array([{}] * 60, dtype=object)))
    assert "got object (60,)" in found["x_train"]


def test_a_file_written_anew_is_read_anew(save):
    first = ImageFileSource(MNIST, save()).size("train")
    assert (first, ImageFileSource(MNIST, save(train=70)).size("train")) == (60, 70)


def test_pool_is_a_permutation_and_test_set_a_subset(save):
    source = ImageFileSource(MNIST, save())
    pool = source.pool(5, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(pool), np.arange(60))
    images, labels, _ = source.test_set(7, np.random.default_rng(0))
    assert images.shape == (7, 28, 28)
    assert len(labels) == 7
    np.testing.assert_array_equal(source.test_set(None, np.random.default_rng(0))[1], np.arange(20) % 10)


def test_a_folder_or_a_link_to_nothing_in_place_of_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    (tmp_path / "mnist.npz").mkdir()
    (tmp_path / "usps.npz").symlink_to(tmp_path / "nowhere")
    for name, kind in (("mnist", "a folder"), ("usps", "a link to nothing")):
        with pytest.raises(DataError, match=rf"{name}\.npz: must be an npz file, but is {kind}"):
            Scenario.read({"data": {"dataset": name}, "protocol": {"kind": "sync", "rounds": 1}}).digest()
        (row,) = [row for row in available() if row["name"] == name]
        assert (row["train"], row["test"]) == (0, 0)
        assert kind in row["provenance"]


def test_a_damaged_file_is_blamed_and_not_the_scenario_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"PK nothing")
    (tmp_path / "scenario.yaml").write_text("{data: {dataset: mnist}, protocol: {kind: sync, rounds: 1}}")
    with pytest.raises(DataError) as raised:
        Scenario.load(tmp_path / "scenario.yaml").digest()
    assert raised.value.source == str(tmp_path / "mnist.npz")
    assert "scenario.yaml" not in str(raised.value)


def content(**fields):
    return DataSpec(clients=2, samples_per_client=5, **fields).content_digest()


def test_other_samples_of_a_name_are_another_run(save, tmp_path):
    """Whatever way the same samples are packed."""
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


def test_each_domain_counts_and_what_stands_for_it(save):
    save("mnist")
    save("svhn")
    two = content(domains=["mnist", "svhn"])
    assert two != content(dataset="mnist")
    save("street_digits")
    with_another = content(domains=["mnist", "svhn"])
    assert with_another != two
    save("svhn", train=70)
    assert content(domains=["mnist", "svhn"]) == with_another, "its place is taken"


def test_samples_that_the_catalogue_knows_need_no_more_than_their_name(save, monkeypatch):
    save()
    known = ImageFileSource(MNIST, save()).content
    monkeypatch.setitem(CATALOG, "mnist", replace(MNIST, content=known))
    assert content(dataset="mnist") is None


def test_what_takes_another_data_sets_place_is_not_taken_for_it():
    assert not any(entry.content for entry in CATALOG.values() if entry.substitute)
