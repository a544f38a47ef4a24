"""The image data sets by name: contents of their files, scaling and stand-ins.

Means and deviations are those in common use for each set (of the training images, in units of 0..1). The domains that
are usually trained together have .5 and .5, as scaled by Li et al. (FedBN, ICLR 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DatasetName = Literal[
    "mnist",
    "fashion_mnist",
    "usps",
    "svhn",
    "street_digits",
    "mnist_m",
    "synth_digits",
    "cifar10",
    "cifar100",
    "emnist",
]


@dataclass(frozen=True)
class CatalogEntry:
    """Facts about one data set.

    `image_shape` is (height, width) for grey images or (height, width, 3) for coloured ones; `mean` and `std` have one
    number per channel; `official` is the number of training and test images of the complete original, None if no
    original was published.
    """

    name: DatasetName
    title: str
    image_shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    official: tuple[int, int] | None
    embedded: str
    """Description of its stand-in."""
    remade: str = ""
    """Contents of a file that has not the official size, as far as known."""
    torchvision: str = ""
    """Class of torchvision that downloads it; empty if there is none."""
    classes: int = 10
    licence: str = "none stated"
    """Licence of the original; "none stated" if its makers state none."""
    md5: tuple[str, ...] = ()
    """Checksums of the downloaded files, training files first; torchvision compares them."""
    content: str = ""
    """Checksums of the well-known file of this name (`ImageFileSource.content`). A run on a file with other samples
    gets another digest. Empty: no file is well known."""
    substitute: str = ""
    """Data set whose file replaces it as a domain if its own file is missing or incomplete."""

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
            embedded="digits drawn from fonts", torchvision="MNIST", licence="CC BY-SA 3.0",
            md5=("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                 "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
            content="1f09fe2ea8e6bdd3e7cf8273cb09f591",
        ),
        CatalogEntry(
            "fashion_mnist", "Fashion-MNIST", (28, 28), (0.2860,), (0.3530,), (60000, 10000),
            embedded="letters A to J drawn from fonts", torchvision="FashionMNIST", licence="MIT",
            md5=("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                 "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
            content="420fb9b53c37b1561177591d01a43677",
        ),
        CatalogEntry(
            "usps", "USPS", (16, 16), (0.2545,), (0.3846,), (7291, 2007),
            embedded="scikit-learn's handwritten digits, enlarged and bent", torchvision="USPS",
            md5=("ec16c51db3855ca6c91edd34d0e9b197", "8ea070ee2aca1ac39742fdd1ef5ed118"),
            content="efb12cda376de765d4635143dafaea2b",
        ),
        CatalogEntry(
            "svhn", "SVHN", (32, 32, 3), *_SVHN, (73257, 26032),
            embedded="house numbers drawn from fonts", remade="official images, subset", torchvision="SVHN",
            substitute="street_digits", licence="non-commercial use",
            md5=("e26dedcc434d2e4c54c9b2d4a06d8373", "eb5a983be6a315427106f1b164d9cef3"),
        ),
        CatalogEntry(
            "street_digits", "street digits", (32, 32, 3), *_SVHN, None,
            embedded="house numbers drawn from fonts", remade="SVHN and Chars74K photographs",
            content="f5b533dddc59c0110e3d0de14b5e572d",
        ),
        CatalogEntry(
            "mnist_m", "MNIST-M", (28, 28, 3), _HALF, _HALF, (59001, 9001),
            embedded="digits drawn from fonts, inverted over photographs", remade="made by its published recipe",
            content="010e6a8ea89630090d417fbeec4fdda1",
        ),
        CatalogEntry(
            "synth_digits", "SynthDigits", (32, 32, 3), _HALF, _HALF, (479400, 9553),
            embedded="coloured digits drawn from fonts over photographs", remade="made in its manner, not the original",
            content="57da3d18a82b71625d60bc7fdb1fbdc1",
        ),
        CatalogEntry(
            "cifar10", "CIFAR-10", (32, 32, 3), (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616), (50000, 10000),
            embedded="coloured letters K to T over photographs", torchvision="CIFAR10",
            md5=("c58f30108f718f92721af3b95e74349a",),
        ),
        CatalogEntry(
            "cifar100", "CIFAR-100", (32, 32, 3), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762), (50000, 10000),
            embedded="a hundred coloured characters over photographs", torchvision="CIFAR100",
            classes=100, md5=("eb9058c3a382ffc7106e4002c42a8d85",),
        ),
        CatalogEntry(
            "emnist", "EMNIST", (28, 28), (0.1751,), (0.3332,), (112800, 18800),
            embedded="digits and letters drawn from fonts", torchvision="EMNIST", classes=47,
            licence="public domain (NIST)", md5=("58c8d27c78d21e728a6bc7b3cc06412e",),
        ),
    )
}  # fmt: skip
"""Data set name -> facts."""
