"""Download of data sets with owners into npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from asyncfl.base.errors import DataError, shortened
from asyncfl.base.files.atomic import atomic_file
from asyncfl.data.folder import DATA_DIR, writing_downloads
from asyncfl.data.natural.catalog import NaturalSet
from asyncfl.data.natural.hugging_face_hub import download_from_hub
from asyncfl.data.natural.uci_archive import download_adult


def fetch_natural(about: NaturalSet) -> Path:
    """Download a data set from the Hugging Face hub or its archive, verify it, and return the path of its npz file.

    Raises DataError if the download fails or has other contents than expected, OutputError if the folder cannot be
    written.
    """
    advice = f"put {about.filename} into the folder that {DATA_DIR} names, or take source: embedded"
    try:
        arrays = download_from_hub(about) if about.hub else download_adult()
    except DataError as error:
        raise DataError(f"{error}, {advice}") from None
    except Exception as error:  # downloads raise many kinds of errors
        reason = shortened(" ".join(f"{type(error).__name__}: {error}".split()), 200)
        raise DataError(f"{about.title} could not be downloaded ({reason}); check the network, {advice}") from None
    with writing_downloads() as folder, atomic_file(folder / about.filename) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return folder / about.filename
