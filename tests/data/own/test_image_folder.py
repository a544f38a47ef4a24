import numpy as np
import pytest
from PIL import Image

from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.own.dataset import load_source


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
