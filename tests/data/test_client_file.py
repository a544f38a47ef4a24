"""A client's own file in a live federation."""

from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data import DataSpec
from asyncfl.data.client_file import ClientFile

IMAGES = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
LABELS = np.array([9, 0, 4])


def written(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path / "own.npz", **arrays)
    return path / "own.npz"


def test_only_this_clients_samples_are_known(tmp_path: Path) -> None:
    own = ClientFile(written(tmp_path, x_train=IMAGES, y_train=LABELS))
    assert len(own) == 3
    data = own.of_client(2, DataSpec(clients=4, scaling="unit"))
    assert data.sizes.tolist() == [0, 0, 3, 0]
    images, labels = data.client(2)
    np.testing.assert_allclose(images[:, 0], IMAGES / 255, rtol=1e-6)
    assert labels.tolist() == [9, 0, 4]
    assert data.shape == (1, 28, 28)
    assert not len(data.test_labels)
    assert (data.original, data.source, data.classes, data.domains) == (False, "real", 10, ("mnist",))
    assert (data.client_domains.tolist(), data.test_offsets.tolist()) == ([0] * 4, [0, 0])
    scaled, _ = own.of_client(2, DataSpec(clients=4)).client(2)
    np.testing.assert_allclose(scaled[:, 0], (IMAGES / 255 - 0.1307) / 0.3081, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"x_train": IMAGES}, "y_train: is missing; the file has x_train"),
        ({"x_train": IMAGES.astype(float), "y_train": LABELS}, r"x_train: must be uint8 images of shape \(n, height"),
        ({"x_train": IMAGES[:0], "y_train": LABELS[:0]}, "n at least 1"),
        ({"x_train": IMAGES, "y_train": LABELS[:2]}, r"y_train: must be one integer label per image, of shape \(3,\)"),
        ({"x_train": IMAGES, "y_train": LABELS.astype(object)}, "y_train: cannot be read: Object arrays"),
    ],
)
def test_a_file_without_labelled_images_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], why: str) -> None:
    with pytest.raises(DataError, match=why):
        ClientFile(written(tmp_path, **arrays))


def test_samples_that_do_not_fit_the_scenario_are_refused(tmp_path: Path) -> None:
    own = ClientFile(written(tmp_path, x_train=IMAGES[:, 2:, 2:], y_train=LABELS + 1))
    with pytest.raises(DataError) as refused:
        own.of_client(0, DataSpec(clients=1))
    assert "x_train: must be images of shape (28, 28) as the scenario's (mnist), got (26, 26)" in str(refused.value)
    assert "y_train: must be labels 0..9 as the scenario's (mnist), got 1..10" in str(refused.value)


def test_client_files_are_for_images_by_name_only(tmp_path: Path) -> None:
    own = ClientFile(written(tmp_path, x_train=IMAGES, y_train=LABELS))
    with pytest.raises(DataError, match=r"data\.dataset: must be images by name \(mnist, .*\) where .* got diabetes"):
        own.of_client(0, DataSpec(dataset="diabetes", clients=2, samples_per_client=5))
