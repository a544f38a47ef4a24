"""Adult (Kohavi 1996): download, columns, and the conversion of rows to arrays: numbers scaled, one column per text.

Unknown cells hold `?`, which is a value like any other.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncfl.base.errors import DataError
from asyncfl.data.sample_source import Array, Ints

if TYPE_CHECKING:
    import pandas as pd

URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
"""File of the archive -> its checksum: 32,561 people for training, 16,281 for testing."""
TIMEOUT_S = 60.0
"""Real seconds without a byte after which the download fails."""

INCOMES = ("<=50K", ">50K")
"""The classes: dollars per year."""
NUMBERS = {
    "age": (38.58, 13.64),
    "fnlwgt": (189_800.0, 105_500.0),
    "education-num": (10.08, 2.573),
    "capital-gain": (1078.0, 7385.0),
    "capital-loss": (87.30, 403.0),
    "hours-per-week": (40.44, 12.35),
}
"""Column of numbers -> the mean and the deviation that scale it: those of the published training rows, rounded. They
are constants, because scales that are measured on a run's rows would reveal these."""
_TEXTS = {
    "workclass": ("Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?"),
    "education": (
        "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm Bachelors "
        "Masters Prof-school Doctorate"
    ),
    "marital-status": (
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": (
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?"
    ),
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": (
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
        "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?"
    ),
}
VALUES = {name: tuple(texts.split()) for name, texts in _TEXTS.items()}
"""Text column -> its values, spelt as in the files."""
WIDTH = len(NUMBERS) + sum(map(len, VALUES.values()))
"""Number of features of a row."""
FIELDS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
"""Columns of the files, in order, separated by blanks."""


def encode_people(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, Array]:
    """Convert training and test rows to arrays, named as in an npz file.

    `x_*` (n, 108) float32: the numbers scaled by `NUMBERS`, then 0 or 1 for each value of each text column; `y_*` (n,)
    incomes; and each text column itself. Raises ValueError for an unknown value in a text column.
    """
    mean, deviation = np.array(list(NUMBERS.values())).T
    arrays: dict[str, Array] = {}
    for split, rows in (("train", train), ("test", test)):
        scaled = (rows[list(NUMBERS)].to_numpy(np.float64) - mean) / deviation
        places = {name: _places(rows[name], values) for name, values in {**VALUES, "income": INCOMES}.items()}
        arrays[f"y_{split}"] = places.pop("income").astype(np.uint8)
        ones = [np.eye(len(VALUES[name]), dtype=np.float32)[at] for name, at in places.items()]
        arrays[f"x_{split}"] = np.concatenate([scaled.astype(np.float32), *ones], axis=1)
        arrays |= {f"{name}_{split}": np.array(VALUES[name])[at] for name, at in places.items()}
    return arrays


def _places(column: pd.Series[Any], values: tuple[str, ...]) -> Ints:
    """Return the index (n,) of each cell among the values of its column."""
    if unknown := sorted({str(cell) for cell in column} - set(values)):
        raise ValueError(f"{column.name} must be one of {', '.join(values)}, got {unknown[0]!r}")
    return np.array([values.index(str(cell)) for cell in column], np.int64)


def download_adult() -> dict[str, Array]:
    """Download and verify Adult and return its arrays, in its own split; see `encode_people`.

    Raises DataError for files with other checksums, and the errors of the download itself.
    """
    import urllib.request  # slow, as it brings TLS

    import pandas as pd

    with urllib.request.urlopen(URL, timeout=TIMEOUT_S) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    splits = []
    for name, expected in SHA256.items():
        content = archive.read(name)
        if (got := hashlib.sha256(content).hexdigest()) != expected:
            raise DataError(f"{name} must have SHA-256 {expected}, got {got}")
        # The test file has an extra first line, and a full stop after each income.
        options: Any = {"names": FIELDS.split(), "comment": "|", "skipinitialspace": True, "keep_default_na": False}
        rows = pd.read_csv(io.BytesIO(content), **options)
        splits.append(rows.assign(income=rows["income"].str.rstrip(".")))
    return encode_people(*splits)
