import os
from fnmatch import fnmatchcase

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from PIL import Image

from asyncfl.api import simulate
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.own.dataset import MappedRows, load_source
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import memory_bytes

RNG = np.random.default_rng(0)
ARRAYS = {
    "x_train": RNG.integers(0, 256, (80, 6, 6), dtype=np.uint8),
    "y_train": np.arange(80) % 4,
    "x_test": RNG.integers(0, 256, (20, 6, 6), dtype=np.uint8),
    "y_test": np.arange(20) % 4,
    "writer_train": np.repeat(np.arange(8), 10),
}


@pytest.fixture
def both(tmp_path):
    """The same arrays as a folder of npy files and as an npz file: two descriptions."""
    folder = tmp_path / "big"
    folder.mkdir()
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(tmp_path / "big.npz", **ARRAYS)
    return {"kind": "npy", "path": str(folder)}, {"kind": "npz", "path": str(tmp_path / "big.npz")}


def test_mapped_samples_equal_those_in_memory(both):
    mapped, loaded = (DataSpec(dataset=one, clients=4, samples_per_client=12).build(Streams(1)) for one in both)
    assert isinstance(mapped.images, MappedRows)
    assert isinstance(mapped.client(2)[0], np.ndarray)
    assert (mapped.shape, len(mapped.images), mapped.images.ndim) == ((1, 6, 6), 48, 4)
    for client in range(4):
        for one, other in zip(mapped.client(client), loaded.client(client), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mapped.images[7], loaded.images[7])
    chosen = loaded.labels == 2
    np.testing.assert_array_equal(mapped.images[chosen], loaded.images[chosen])
    for one, other in zip(mapped.feature_range(), loaded.feature_range(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mapped.test_images, loaded.test_images)


def test_a_run_on_mapped_samples_is_identical_and_needs_less_memory(both, tiny):
    tiny["evaluation"] = {"audit": {"clients": 1, "twins": 7}}
    tiny["threats"] = {"attack": {"kind": "backdoor", "side": 2}, "attackers": 1}
    runs = []
    for dataset in both:
        tiny["data"] = {"dataset": dataset, "clients": 5, "samples_per_client": 16}
        scenario = Scenario.read(tiny)
        runs.append((simulate(scenario), memory_bytes(scenario), scenario.data.content_digest()))
    for name in ("rounds", "audit"):
        assert_frame_equal(*(run.tables[name].to_pandas() for run, _, _ in runs))
    assert runs[1][1] - runs[0][1] == 4 * 9 * 36 * 16
    assert runs[0][2] == runs[1][2]


def test_many_classes_count_in_the_estimate_of_memory(tiny, npz):
    path = npz(x_train=np.ones((30_000, 1), np.float32), y_train=np.arange(30_000) * 4)
    tiny["data"] = {"dataset": {"kind": "npz", "path": path}, "clients": 5, "samples_per_client": 16}
    tiny["model"] = {"kind": "linear"}
    assert memory_bytes(Scenario.read(tiny)) > 4 * 120_000 * 2000


def test_faults_name_the_folder_and_the_file(both, faults, tmp_path):
    folder = tmp_path / "big"
    assert faults(both[0], canaries={"count": 1}) == [
        "canaries: must be null where samples stay on disk (big); take kind: npz"
    ]
    x = ARRAYS["x_train"].astype(float)
    x[5] = np.nan
    np.save(folder / "x_train.npy", x)
    (folder / "x_test.npy").unlink()
    (folder / "y_test.npy").unlink()
    assert faults(both[0]) == [f"{folder}: x_train: must be finite numbers, got nan in sample 5"]
    (folder / "x_train.npy").write_bytes(b"no array")
    (found,) = faults(both[0])
    assert found.startswith(f"{folder / 'x_train.npy'}: cannot be read: ")
    (folder / "x_train.npy").unlink()
    (found,) = faults(both[0])
    assert found == f"{folder}: x_train.npy: is missing; the folder has writer_train.npy, y_train.npy"
    (found,) = faults({"kind": "npy", "path": str(tmp_path / "none")})
    assert (
        found == f"{tmp_path / 'none'}: must be a folder with x_train.npy and y_train.npy, but there is no such folder"
    )


def test_samples_may_have_any_shape(npz):
    for shape in ((3,), (4, 2), (2, 3, 4), (1, 2, 2, 2)):
        x = np.arange(12 * np.prod(shape), dtype=np.int16).reshape(12, *shape)
        dataset = {"kind": "npz", "path": npz(x_train=x, x_test=x[:4], y_test=np.arange(4) % 3)}
        spec = DataSpec(dataset=dataset, clients=3, samples_per_client=4)
        data = spec.build(Streams(0))
        assert spec.shape == data.shape == shape
        assert spec.classes == data.classes == 3
        assert data.images.dtype == np.float32
        np.testing.assert_array_equal(np.sort(data.images.ravel()), np.arange(x.size))
        np.testing.assert_array_equal(data.labels, data.images.reshape(12, -1)[:, 0] // np.prod(shape) % 3)
        assert (data.source, data.original, data.domains) == ("real", True, ("mine.npz",))
        assert data.provenance == "mine.npz (12 + 4 samples)"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_train": None}, "y_train: is missing; the file has x_train"),
        ({"writer_train": np.arange(3)}, "[*]_train.writer: must be a NumPy array of shape (12,), got shape (3,)"),
        ({"x_train": np.array([None])}, "x_train: cannot be read: Object arrays cannot be loaded *"),
    ],
)
def test_messages_name_the_file_and_the_array(npz, faults, changed, message):
    path = npz(**changed)
    (found,) = faults({"kind": "npz", "path": path})
    assert fnmatchcase(found.removeprefix(path), f": {message}")


def test_a_missing_or_damaged_file_is_refused(tmp_path, faults):
    for name, content, message in (
        ("missing.npz", None, "cannot be read: [Errno 2] No such file or directory"),
        ("text.npz", b"hello", "must be an npz file with arrays x_train and y_train, but it is not an npz file"),
        ("folder.npz", "folder", "cannot be read: [Errno 21] it is a folder"),
    ):
        path = tmp_path / name
        if content == "folder":
            path.mkdir()
        elif content is not None:
            path.write_bytes(content)
        (found,) = faults({"kind": "npz", "path": str(path)})
        assert found.startswith(f"{path}: {message}")
    np.save(tmp_path / "one.npy", np.zeros(3))
    (found,) = faults({"kind": "npz", "path": str(tmp_path / "one.npy")})
    assert "must be an npz file with arrays x_train and y_train, but it is not an npz file" in found


def test_a_pipe_is_refused_instead_of_read_for_ever(tmp_path, faults):
    for name in ("pets/cats/1.png", "pets/dogs/1.png", "big/x_train.npy", "a.npz", "a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    for kind, path in (("npz", "a.npz"), ("npy", "big"), ("folder", "pets"), ("table", "a.csv")):
        target = {"target": "b"} if kind == "table" else {}
        found = faults({"kind": kind, "path": str(tmp_path / path), **target})
        assert ["cannot be read" in fault for fault in found] == [True] * (2 if kind == "folder" else 1)


def test_only_images_are_restyled(npz, faults):
    (found,) = faults({"kind": "npz", "path": npz()}, concept={"kind": "restyled"})
    assert found == "concept.kind: must not be restyled where mine.npz holds no pictures (bytes), got (3,)"
    oblong = npz(x_train=np.zeros((12, 3, 5), np.uint8))
    (found,) = faults({"kind": "npz", "path": oblong}, concept={"kind": "restyled"})
    assert found == "concept.change: must be inverted where pictures are not square (3x5 pixels), got rotated"
    assert faults({"kind": "npz", "path": oblong}, concept={"kind": "restyled", "change": "inverted"}) == []


@pytest.fixture
def put(tmp_path):
    """Function that writes a picture of one colour, height x width pixels."""

    def write(name, colour=0, size=(4, 6), root="pets"):
        path = tmp_path / root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((*size, 3), colour, np.uint8)).save(path)
        return tmp_path / root

    return write


@pytest.fixture
def pets(put):
    for number in range(5):
        put(f"cats/{number}.png", number)
        root = put(f"dogs/{number}.PNG", 100 + number)
    (root / "cats" / "notes.txt").write_text("no picture")
    (root / ".hidden").mkdir()
    return root


def test_folders_are_classes_in_alphabetical_order(pets):
    source = load_source(DataSpec(dataset={"kind": "folder", "path": str(pets)}).dataset)
    assert source.class_names == ("cats", "dogs")
    assert (source.shape, source.size("train"), source.size("test")) == ((3, 4, 6), 8, 2)
    seen = source.images("train", np.arange(8))[:, 0, 0, 0]
    np.testing.assert_array_equal(source.labels("train", np.arange(8)), seen >= 100)


def test_train_and_test_folders_with_images_resized(put):
    for split, number in (("train", 3), ("test", 2)):
        for name in ("cats", "dogs"):
            for one in range(number):
                root = put(f"{split}/{name}/{one}.png", 10 * one, (4 + one, 8))
    dataset = {"kind": "folder", "path": str(root), "size": [5, 7], "colours": "grey"}
    spec = DataSpec(dataset=dataset, clients=2, samples_per_client=3, scaling="unit")
    data = spec.build(Streams(0))
    assert data.shape == (1, 5, 7)
    assert (len(data.labels), len(data.test_labels)) == (6, 4)
    np.testing.assert_allclose(np.sort(data.images[:, 0, 0, 0]), np.repeat([0, 10, 20], 2) / 255, atol=1e-6)


def test_an_unusable_image_or_class_is_named(pets, put, faults):
    dataset = {"kind": "folder", "path": str(pets)}
    damaged = pets / "dogs" / "7.png"
    damaged.write_bytes(b"\x89PNG but no more")
    assert faults(dataset) == [f"{pets}: dogs/7.png: must be a picture, but cannot be read: UnidentifiedImageError"]
    damaged.unlink()
    put("dogs/5.png", size=(5, 6))
    assert faults(dataset) == [
        f"{pets}: dogs/5.png: must be 4x6 pixels (height x width) as the first, got 5x6; give size"
    ]
    (pets / "dogs" / "5.png").unlink()
    (pets / "ants").mkdir()
    (found,) = faults(dataset)
    assert found.startswith(f"{pets}: ants: must hold at least one picture (.png, ")


def test_wrong_folders_are_refused(tmp_path, put, faults):
    missing = tmp_path / "none"
    assert faults({"kind": "folder", "path": str(missing)}) == [
        f"{missing}: must be a folder with one folder of pictures per class, but there is no such folder"
    ]
    root = put("cats/1.png")
    assert faults({"kind": "folder", "path": str(root)}) == [
        f"{root}: must hold at least two folders of pictures, one per class, got cats"
    ]
    for name in ("train/cats/1.png", "train/dogs/1.png", "test/cats/1.png", "test/mice/1.png"):
        root = put(name, root="split")
    assert faults({"kind": "folder", "path": str(root)}) == [
        f"{root / 'test'}: must hold the classes cats, dogs, got also mice"
    ]
