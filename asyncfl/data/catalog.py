"""Data sets by name: images, with their scaling and stand-ins, and sets whose samples have owners; and their files.

Means and deviations are those in common use for each set (of the training images, in units of 0..1). The domains that
are usually trained together have .5 and .5, as scaled by Li et al. (FedBN, ICLR 2021).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asyncfl.base.errors import DataError
from asyncfl.data.sample_source import Scale

DatasetName = Literal[
    "mnist", "fashion_mnist", "usps", "svhn", "street_digits", "mnist_m", "synth_digits", "cifar10", "cifar100",
    "emnist",
]  # fmt: skip


@dataclass(frozen=True)
class CatalogEntry:
    """Facts about one set of images."""

    name: DatasetName
    title: str
    image_shape: tuple[int, ...]
    """(height, width) of grey images, (height, width, 3) of coloured ones."""
    scale: Scale
    """Mean and deviation of the pixels, one number per channel."""
    official: tuple[int, int] | None
    """Number of training and test images of the complete original; None if no original was published."""
    embedded: str
    """Description of its stand-in."""
    remade: str = ""
    """Contents of a file that has not the official size, as far as known."""
    torchvision: str = ""
    """Class of torchvision that downloads it; empty if there is none."""
    classes: int = 10
    licence: str = "none stated"
    """Licence of the original; "none stated" if its makers state none."""
    content: str = ""
    """Checksums of the well-known file of this name (`ImageFile.content`), with which a run's digest does not change;
    empty: no file is well known."""
    substitute: str = ""
    """Data set whose file replaces it as a domain if its own file is missing or incomplete."""


_HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
_SVHN = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)

CATALOG: dict[str, CatalogEntry] = {
    d.name: d
    for d in (
        CatalogEntry(
            "mnist", "MNIST", (28, 28), ((0.1307,), (0.3081,)), (60000, 10000),
            embedded="digits drawn from fonts", torchvision="MNIST", licence="CC BY-SA 3.0",
            content="1f09fe2ea8e6bdd3e7cf8273cb09f591",
        ),
        CatalogEntry(
            "fashion_mnist", "Fashion-MNIST", (28, 28), ((0.2860,), (0.3530,)), (60000, 10000),
            embedded="letters A to J drawn from fonts", torchvision="FashionMNIST", licence="MIT",
            content="420fb9b53c37b1561177591d01a43677",
        ),
        CatalogEntry(
            "usps", "USPS", (16, 16), ((0.2545,), (0.3846,)), (7291, 2007),
            embedded="small digits drawn from fonts", torchvision="USPS",
            content="efb12cda376de765d4635143dafaea2b",
        ),
        CatalogEntry(
            "svhn", "SVHN", (32, 32, 3), _SVHN, (73257, 26032),
            embedded="coloured digits drawn from fonts over photographs", remade="official images, subset",
            torchvision="SVHN", substitute="street_digits", licence="non-commercial use",
        ),
        CatalogEntry(
            "street_digits", "street digits", (32, 32, 3), _SVHN, None,
            embedded="coloured digits drawn from fonts over photographs", remade="SVHN and Chars74K photographs",
            content="f5b533dddc59c0110e3d0de14b5e572d",
        ),
        CatalogEntry(
            "mnist_m", "MNIST-M", (28, 28, 3), _HALF, (59001, 9001),
            embedded="digits drawn from fonts, inverted over photographs", remade="made by its published recipe",
            content="010e6a8ea89630090d417fbeec4fdda1",
        ),
        CatalogEntry(
            "synth_digits", "SynthDigits", (32, 32, 3), _HALF, (479400, 9553),
            embedded="coloured digits drawn from fonts over photographs", remade="made in its manner, not the original",
            content="57da3d18a82b71625d60bc7fdb1fbdc1",
        ),
        CatalogEntry(
            "cifar10", "CIFAR-10", (32, 32, 3), ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), (50000, 10000),
            embedded="coloured letters K to T over photographs", torchvision="CIFAR10",
        ),
        CatalogEntry(
            "cifar100", "CIFAR-100", (32, 32, 3), ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), (50000, 10000),
            embedded="a hundred coloured characters over photographs", torchvision="CIFAR100",
            classes=100,
        ),
        CatalogEntry(
            "emnist", "EMNIST", (28, 28), ((0.1751,), (0.3332,)), (112800, 18800),
            embedded="digits and letters drawn from fonts", torchvision="EMNIST", classes=47,
            licence="public domain (NIST)",
        ),
    )
}  # fmt: skip
"""Data set name -> facts."""

ScikitLearnName = Literal["breast_cancer", "diabetes", "digits", "iris", "wine"]
NaturalName = Literal["femnist", "shakespeare", "adult"]

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The characters of Shakespeare's works, in the order of their classes; any other character counts as a space."""
WINDOW = 80  # number of characters from which the next one is predicted
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # the classes of FEMNIST, in order


@dataclass(frozen=True)
class ArraySet:
    """Facts about one data set of arrays: those whose samples have owners, FEMNIST and Shakespeare (LEAF, Caldas et al.
    2018, arXiv:1812.01097) and Adult, whose people can be grouped by occupation, education or origin (Kohavi 1996); and
    those that ship with scikit-learn, whose `official` is 0."""

    name: NaturalName | ScikitLearnName
    title: str
    licence: str
    shape: str  # shape of a sample, as text
    columns: tuple[str, ...] = ()  # columns that give the owner or group of a sample
    classes: tuple[str, ...] = ()
    official: int = 0  # number of samples of the complete original
    hub: str = ""  # name on the Hugging Face hub; empty: it is not on the hub
    embedded: str = ""  # description of its stand-in; empty if there is none


_ADULT_TEXTS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
ARRAY_SETS: dict[str, ArraySet] = {
    one.name: one
    for one in (
        ArraySet("breast_cancer", "Breast Cancer Wisconsin", "CC BY 4.0", "30"),
        ArraySet("diabetes", "Diabetes of Efron et al. (2004)", "none stated", "10"),
        ArraySet("digits", "Optical Recognition of Handwritten Digits", "CC BY 4.0", "8x8"),
        ArraySet("iris", "Iris", "CC BY 4.0", "4"),
        ArraySet("wine", "Wine", "CC BY 4.0", "13"),
        ArraySet(
            "femnist", "FEMNIST", "BSD 2-Clause (pictures: NIST, public domain)", "28x28", ("writer",), tuple(LETTERS),
            814_277, "flwrlabs/femnist",
            embedded="digits and letters drawn from fonts by 100 writers, each in a hand of its own",
        ),
        ArraySet(
            "shakespeare", "Shakespeare", "BSD 2-Clause (text: public domain)", str(WINDOW), ("role",),
            tuple(CHARACTERS), 4_226_158, "flwrlabs/shakespeare",
        ),
        ArraySet("adult", "Adult", "CC BY 4.0", "108", _ADULT_TEXTS, ("<=50K", ">50K"), 48_842),
    )
}  # fmt: skip
"""Data set name -> facts."""

DATA_DIR = "ASYNCFL_DATA_DIR"  # environment variable that names the user's data folder


def download_folder() -> str:
    """Return the folder that `asyncfl data fetch` fills: `asyncfl/data` in the user's cache (`XDG_CACHE_HOME`)."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "asyncfl", "data")


def find(name: str) -> Path | None:
    """Return the path of a data set's npz file in the user's folder, or else among the downloads; None if neither has
    it.

    A folder or a dangling link of that name counts as well: reading it will report the problem instead of silently
    using stand-ins. Raises DataError if ASYNCFL_DATA_DIR names no folder, so that a typo does not lead to them either.
    """
    # called a hundred thousand times while planning an experiment, so paths are built only for a file that exists
    named = os.environ.get(DATA_DIR)
    if named and not os.path.isdir(named):
        got = f"{named!r} is not a folder; correct or unset it"
        raise DataError(f"{DATA_DIR} must name a folder with one npz file per data set, but {got}")
    for folder in (named, download_folder()) if named else (download_folder(),):
        if os.path.lexists(path := os.path.join(folder, f"{name}.npz")):
            return Path(path)
    return None
