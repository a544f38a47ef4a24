"""Pictures of all modes become bytes that show what the picture shows, or are refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from asyncfl.base.errors import DataError
from asyncfl.data.own.file_formats import ImageFolder
from asyncfl.data.own.pictures import picture_array

SHAPE = np.zeros((8, 8), np.uint8)
SHAPE[2:6, 2:4] = 255
"""What each picture shows: a bar."""


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "pets").mkdir()
    return tmp_path / "pets"


def pictures_of(folder: Path, **classes: list[Image.Image]) -> ImageFolder:
    for name, pictures in classes.items():
        (folder / name).mkdir(parents=True)
        for number, picture in enumerate(pictures):
            picture.save(folder / name / f"{number}.{'tiff' if picture.mode == 'F' else 'png'}")
    return ImageFolder(path=str(folder), colours="grey")


def in_mode(mode: str) -> Image.Image:
    """The bar in a mode of PIL."""
    if mode == "I;16":
        return Image.fromarray(SHAPE.astype(np.uint16) * 257)
    if mode == "RGBA":  # black everywhere: the shape is in the opacity alone
        return Image.fromarray(np.dstack([np.zeros((8, 8, 3), np.uint8), SHAPE]))
    if mode == "LA":
        return Image.fromarray(np.dstack([np.zeros((8, 8), np.uint8), SHAPE]), "LA")
    return Image.fromarray(SHAPE).convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "HSV", "I;16"])
def test_a_picture_of_any_mode_shows_the_same(mode: str) -> None:
    found = picture_array(in_mode(mode).convert("L") if mode == "P" else in_mode(mode))
    grey = found if found.ndim == 2 else found.mean(2)
    np.testing.assert_allclose(grey, SHAPE, atol=3)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_composed_over_white(mode: str) -> None:
    found = picture_array(in_mode(mode))
    np.testing.assert_array_equal(found if found.ndim == 2 else found[..., 0], 255 - SHAPE)


def test_a_palette_is_looked_up_and_its_transparent_colour_is_white(tmp_path: Path) -> None:
    picture = Image.fromarray((SHAPE > 0).astype(np.uint8), "P")
    picture.putpalette([10, 20, 30, 200, 100, 50])
    np.testing.assert_array_equal(picture_array(picture)[3, 2], [200, 100, 50])
    picture.info["transparency"] = 0
    np.testing.assert_array_equal(picture_array(picture)[0, 0], [255, 255, 255])


def test_grey_of_16_bits_keeps_its_levels(tmp_path: Path) -> None:
    levels = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    data = pictures_of(tmp_path / "p", a=[Image.fromarray(levels)], b=[Image.fromarray(levels.T.copy())]).load()
    np.testing.assert_array_equal(
        data.features[0, ..., 0] if data.features.ndim == 4 else data.features[0], levels // 257
    )


def test_a_picture_is_turned_as_its_exif_data_say(pets: Path) -> None:
    picture, exif = Image.fromarray(SHAPE), Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it turned by a quarter, clockwise
    for name in ("a", "b"):
        (pets / name).mkdir()
        picture.save(pets / name / "1.png", exif=exif)
    found = ImageFolder(path=str(pets), colours="grey").load().features[0]
    np.testing.assert_array_equal(found.reshape(8, 8), np.rot90(SHAPE, -1))


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (Image.fromarray(SHAPE / np.float32(255)), "got mode F, whose range is not known"),
        (Image.fromarray(SHAPE.astype(np.int32) * 1000), r"whole numbers 0\.\.65535 \(16 bits\), got 0\.\.255000"),
    ],
)
def test_numbers_without_a_known_range_are_refused_by_name(pets: Path, picture: Image.Image, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        picture_array(picture)
    if picture.mode == "F":
        with pytest.raises(DataError, match=rf"a/0\.tiff: must hold bytes or grey of 16 bits, {told}"):
            pictures_of(pets, a=[picture], b=[picture]).load()


def test_pictures_in_folders_below_a_class_are_read(pets: Path) -> None:
    pictures_of(pets, a=[Image.fromarray(SHAPE)], b=[Image.fromarray(SHAPE)])
    (pets / "a" / "sub" / "sub").mkdir(parents=True)
    for number in range(3):
        Image.fromarray(SHAPE).save(pets / "a" / "sub" / "sub" / f"{number}.png")
    assert ImageFolder(path=str(pets)).load().labels.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_a_folder_of_validation_stands_for_the_test_set(pets: Path, name: str) -> None:
    for split, count in (("train", 3), (name, 2)):
        pictures_of(pets / split, a=[Image.fromarray(SHAPE)] * count, b=[Image.fromarray(SHAPE)] * count)
    found = ImageFolder(path=str(pets)).load()
    assert found.test_labels is not None
    assert (len(found.labels), len(found.test_labels)) == (6, 4)


def test_a_folder_that_would_not_be_read_is_refused(pets: Path) -> None:
    split: Any
    for split in ("train", "test", "val"):
        pictures_of(pets / split, a=[Image.fromarray(SHAPE)], b=[Image.fromarray(SHAPE)])
    with pytest.raises(DataError, match=r"must hold train and test .or val in its place., got also val; move it away"):
        ImageFolder(path=str(pets)).load()
