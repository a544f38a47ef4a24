"""The data sets by name: what their files hold, how they are scaled, what stands in for them.

Means and deviations are the ones in common use for each set (of the training images, in units of 0..1); the
domains that are usually trained together have .5 and .5, as Li et al. (FedBN, ICLR 2021) scale them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DatasetName = Literal["mnist", "fashion_mnist", "usps", "svhn", "street_digits", "mnist_m", "synth_digits"]


@dataclass(frozen=True)
class CatalogEntry:
    """Facts about one data set.

    `image_shape` is (height, width) of grey images or (height, width, 3) of coloured ones; `mean` and `std`
    have one number per channel; `official` is how many training and test images the complete original has,
    None where the original was never published as such.
    """

    name: DatasetName
    title: str
    image_shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    official: tuple[int, int] | None
    embedded: str
    """What stands in for it where it is not on disk."""
    remade: str = ""
    """What a file that is not of the official size holds, as far as is known."""
    torchvision: str = ""
    """Class of torchvision that downloads it; empty if none does."""
    classes: int = 10
    substitute: str = ""
    """Data set whose file takes its place as a domain, where its own file is missing or not complete."""

    @property
    def channels(self) -> int:
        return self.image_shape[2] if len(self.image_shape) == 3 else 1

    @property
    def filename(self) -> str:
        return f"{self.name}.npz"


_HALF = (0.5, 0.5, 0.5)
_SVHN = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)

CATALOG: dict[str, CatalogEntry] = {
    d.name: d
    for d in (
        CatalogEntry(
            "mnist", "MNIST", (28, 28), (0.1307,), (0.3081,), (60000, 10000),
            embedded="digits drawn from fonts", torchvision="MNIST",
        ),
        CatalogEntry(
            "fashion_mnist", "Fashion-MNIST", (28, 28), (0.2860,), (0.3530,), (60000, 10000),
            embedded="letters A to J drawn from fonts", torchvision="FashionMNIST",
        ),
        CatalogEntry(
            "usps", "USPS", (16, 16), (0.2545,), (0.3846,), (7291, 2007),
            embedded="scikit-learn's handwritten digits, enlarged and bent", torchvision="USPS",
        ),
        CatalogEntry(
            "svhn", "SVHN", (32, 32, 3), *_SVHN, (73257, 26032),
            embedded="house numbers drawn from fonts", remade="official images, subset", torchvision="SVHN",
            substitute="street_digits",
        ),
        CatalogEntry(
            "street_digits", "street digits", (32, 32, 3), *_SVHN, None,
            embedded="house numbers drawn from fonts", remade="SVHN and Chars74K photographs",
        ),
        CatalogEntry(
            "mnist_m", "MNIST-M", (28, 28, 3), _HALF, _HALF, (59001, 9001),
            embedded="digits drawn from fonts, inverted over textures", remade="made by its published recipe",
        ),
        CatalogEntry(
            "synth_digits", "SynthDigits", (32, 32, 3), _HALF, _HALF, (479400, 9553),
            embedded="coloured digits drawn from fonts", remade="made in its manner, not the original",
        ),
    )
}  # fmt: skip
"""Name -> facts."""
