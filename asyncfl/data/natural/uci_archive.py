"""Download of Adult from the UCI Machine Learning Repository, in the two files in which it was published."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from asyncfl.base.errors import DataError
from asyncfl.data.natural.adult import FIELDS, encode_people

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


def download_adult() -> dict[str, NDArray[Any]]:
    """Download and verify Adult and return its arrays, in its own split; see `encode_people`.

    Raises DataError for files with other checksums, and the errors of the download itself.
    """
    import urllib.request  # slow, as it brings TLS

    with urllib.request.urlopen(URL, timeout=TIMEOUT_S) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    files = {name: archive.read(name) for name in SHA256}
    for name, content in files.items():
        if (got := hashlib.sha256(content).hexdigest()) != SHA256[name]:
            raise DataError(f"{name} must have SHA-256 {SHA256[name]}, got {got}")
    return encode_people(*map(_rows, files.values()))


def _rows(content: bytes) -> pd.DataFrame:
    """Parse the people of a file; the test file has an extra first line, and a full stop after each income."""
    import pandas as pd

    names = list(FIELDS)
    rows = pd.read_csv(io.BytesIO(content), names=names, comment="|", skipinitialspace=True, keep_default_na=False)
    return rows.assign(income=rows["income"].str.rstrip("."))
