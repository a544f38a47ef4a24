"""Download of data sets into npz files: through torchvision, from the Hugging Face hub, or from UCI's archive.

Two sets that nobody offers in one piece are made by their recipes:

- `mnist_m`: the absolute difference of an MNIST digit and a patch of a photograph (Ganin et al. 2016,
  Domain-Adversarial Training of Neural Networks, section 5.2.2). The photographs are scikit-learn's two; the original
  has those of BSDS500.
- `synth_digits`: digits of fonts, turned and sheared, on photographs (the same paper; the original is not this one).
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np

from asyncfl.base.errors import DataError, Fault, MissingDataError, OutputError, shortened
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.streams import Streams
from asyncfl.base.torchvision_parts import torchvision_part
from asyncfl.data.catalog import ARRAY_SETS, CATALOG, CHARACTERS, DATA_DIR, WINDOW, download_folder, find
from asyncfl.data.image_file import ImageFile
from asyncfl.data.sample_source import Split
from asyncfl.data.stand_ins import PATCH_DRAWS, StandIns, patches

Arrays = dict[str, Any]  # arrays of an npz file by name
TORCHVISION = tuple(name for name, dataset in CATALOG.items() if dataset.torchvision)
MADE = ("mnist_m", "synth_digits")
_NATURAL = tuple(name for name, dataset in ARRAY_SETS.items() if dataset.official)
FETCHABLE = (*TORCHVISION, *MADE, *_NATURAL)  # names of the data sets that can be downloaded or made
_MADE_SIZES: dict[Split, int] = {"train": 8000, "test": 2000}
"""Number of images that are made for each split, enough for experiments; the originals are larger."""


_refusals = 0
"""Number of `downloads_refused` under way."""


@contextmanager
def downloads_refused() -> Iterator[None]:
    """Have `fetch` raise MissingDataError for data sets that are not on disk, without touching the network."""
    global _refusals
    _refusals += 1
    try:
        yield
    finally:
        _refusals -= 1


def title_of(name: str) -> str:
    """Return the title of a data set by its name."""
    return CATALOG[name].title if name in CATALOG else ARRAY_SETS[name].title


def fetch(names: Iterable[str] = TORCHVISION) -> list[Path]:
    """Download or make the data sets `names` that are not on disk yet, and return the paths of their npz files.

    Raises DataError for names that cannot be downloaded (all of them at once) and for downloads that fail or have other
    contents than expected, MissingDataError where downloads are refused, OutputError if the folder cannot be written.
    """
    names = list(names)
    if _refusals and (absent := {name: title_of(name) for name in names if not find(name)}):
        command = f"download it with asyncfl data fetch {' '.join(absent)}"
        message = f"{', '.join(absent.values())} must be on disk; {command}, or name its folder in {DATA_DIR}"
        raise MissingDataError([Fault("data", message)], missing=absent)
    if missing := [name for name in names if name not in FETCHABLE and not (name in CATALOG and find(name))]:
        unknown = f"is not a data set that can be downloaded; known are {', '.join((*CATALOG, *_NATURAL))}"
        known = f"cannot be downloaded through torchvision (those that can: {', '.join(TORCHVISION)})"
        raise DataError(Fault(name, f"{known}; {_advice(name)}" if name in CATALOG else unknown) for name in missing)
    return [find(name) or _download(name) for name in names]


def _advice(name: str) -> str:
    place = f"put {name}.npz into the folder that {DATA_DIR} names"
    return f"{place}, or take source: embedded" if name in CATALOG or ARRAY_SETS[name].embedded else place


def _download(name: str) -> Path:
    title = ARRAY_SETS[name].title if name in ARRAY_SETS else CATALOG[name].torchvision
    mnist = fetch(["mnist"])[0] if name == "mnist_m" else None
    folder = Path(download_folder())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if name in MADE:
            arrays = _make(mnist)
        elif name in ARRAY_SETS:
            arrays = _from_hub(name) if ARRAY_SETS[name].hub else _adult_arrays()
        else:
            with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.") as scratch:
                arrays = _from_torchvision(name, scratch)
        with atomic_file(folder / f"{name}.npz") as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)
    except OutputError:
        raise
    except DataError as error:
        raise DataError(f"{error}, {_advice(name)}") from None
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        advice = "set XDG_CACHE_HOME to a folder that can"
        raise OutputError(f"{folder} cannot be written ({error.strerror}); {advice}") from None
    except Exception as error:  # downloads raise many kinds of errors
        reason = shortened(" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"), 200)
        message = f"{title} could not be downloaded ({reason}); check the network, or {_advice(name)}"
        raise DataError(message) from None
    return folder / f"{name}.npz"


def _from_torchvision(name: str, scratch: str) -> Arrays:
    """Download both splits of a set of images with torchvision, which verifies them."""
    arrays: Arrays = {}
    for split in get_args(Split):
        which: dict[str, Any] = {"split": split} if name == "svhn" else {"train": split == "train"}
        if name == "emnist":
            which["split"] = "balanced"  # 47 classes: letters of the same shape in both cases count as one
        loaded = getattr(torchvision_part("datasets"), CATALOG[name].torchvision)(scratch, download=True, **which)
        images = np.asarray(loaded.data, dtype=np.uint8)
        if name == "svhn":
            images = images.transpose(0, 2, 3, 1)
        if name == "emnist":
            images = images.transpose(0, 2, 1)  # its files store columns first
        arrays[f"x_{split}"] = images
        labels = loaded.labels if name == "svhn" else loaded.targets
        arrays[f"y_{split}"] = np.asarray(labels, dtype=np.uint8)
    return arrays


def _make(mnist: Path | None) -> Arrays:
    """Make images (n, 28, 28, 3) of MNIST-M from the first digits of MNIST's file; without one images (n, 32, 32, 3) of
    SynthDigits."""
    arrays: Arrays = {}
    for split, most in _MADE_SIZES.items():
        if mnist is None:
            source, chosen = StandIns(CATALOG["synth_digits"]), np.arange(most)
            images, labels = source.images(split, chosen), source.labels(split, chosen)
        else:
            digits = ImageFile(CATALOG["mnist"], mnist)
            chosen = np.arange(min(most, digits.size(split)))
            random = Streams(0).generator("stand_ins", zlib.crc32(f"recipe of mnist_m/{split}".encode()) >> 1)
            ground = patches(28, random.random((len(chosen), PATCH_DRAWS), np.float32)).reshape(-1, 28, 28, 3)
            inverted = np.abs(255 * ground - digits.images(split, chosen)[..., None])
            images, labels = np.rint(inverted).astype(np.uint8), digits.labels(split, chosen)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = images, labels.astype(np.uint8)
    return arrays


def _from_hub(name: str) -> Arrays:
    """Download a data set from the Hugging Face hub with `datasets` (an extra), which verifies it."""
    about = ARRAY_SETS[name]
    try:
        import datasets
    except ImportError:
        message = f"{about.title} is downloaded by the package datasets, which is not installed"
        raise DataError(f"{message}; pip install 'asyncfl[data]'") from None
    rows = datasets.load_dataset(about.hub, split="train").with_format("numpy")
    if len(rows) != about.official:
        raise DataError(f"{about.title} must have {about.official} samples, got {len(rows)}; fetch it again")
    return _femnist_arrays(rows) if name == "femnist" else _shakespeare_arrays(rows)


def _femnist_arrays(rows: Any) -> Arrays:
    """Convert rows (image, writer_id, character) to arrays, with bright strokes on black as in MNIST."""
    pictures = np.stack([np.asarray(row["image"], np.uint8).reshape(28, 28) for row in rows])
    return {
        "x_train": 255 - pictures,
        "y_train": np.array([int(row["character"]) for row in rows], np.uint8),
        "writer_train": np.array([str(row["writer_id"]) for row in rows]),
    }


def _shakespeare_arrays(rows: Any) -> Arrays:
    """Convert rows (x, y, character_id) to arrays: the numbers of 80 characters, and of the next one."""
    known = {character: number for number, character in enumerate(CHARACTERS)}
    space = known[" "]
    windows = np.full((len(rows), WINDOW), space, np.uint8)
    for number, row in enumerate(rows):
        text = str(row["x"])[-WINDOW:]
        windows[number, WINDOW - len(text) :] = [known.get(character, space) for character in text]
    return {
        "x_train": windows,
        "y_train": np.array([known.get(str(row["y"]), space) for row in rows], np.uint8),
        "role_train": np.array([str(row["character_id"]) for row in rows]),
    }


ADULT_URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
ADULT_SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
"""File of the archive -> its checksum: 32,561 people for training, 16,281 for testing."""
TIMEOUT_S = 60.0  # real seconds without a byte after which the download fails
ADULT_NUMBERS = {
    "age": (38.58, 13.64),
    "fnlwgt": (189_800.0, 105_500.0),
    "education-num": (10.08, 2.573),
    "capital-gain": (1078.0, 7385.0),
    "capital-loss": (87.30, 403.0),
    "hours-per-week": (40.44, 12.35),
}
"""Column of numbers -> the mean and the deviation that scale it: those of the published training rows, rounded. They
are constants, because scales that are measured on a run's rows would reveal these."""
_ADULT_FIELDS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)


def _adult_arrays() -> Arrays:
    """Download and verify Adult, in its own split. `x_*` (n, 108) float32 holds the numbers scaled by `ADULT_NUMBERS`,
    then 0 or 1 for each published value of each text column (`?`, unknown, is one); `y_*` (n,) holds incomes."""
    import urllib.request  # slow, as it brings TLS

    import pandas as pd

    with urllib.request.urlopen(ADULT_URL, timeout=TIMEOUT_S) as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    splits = {}
    for (name, expected), split in zip(ADULT_SHA256.items(), get_args(Split), strict=True):
        content = archive.read(name)
        if (got := hashlib.sha256(content).hexdigest()) != expected:
            raise DataError(f"{name} must have SHA-256 {expected}, got {got}")
        # The test file has an extra first line, and a full stop after each income.
        options: Any = {"names": _ADULT_FIELDS.split(), "comment": "|", "keep_default_na": False}
        splits[split] = pd.read_csv(io.BytesIO(content), skipinitialspace=True, **options)
    about, rows = ARRAY_SETS["adult"], pd.concat(splits)
    mean, deviation = np.array(list(ADULT_NUMBERS.values())).T
    numbers = (rows[list(ADULT_NUMBERS)] - mean) / deviation
    features = pd.concat([numbers, pd.get_dummies(rows[list(about.columns)])], axis=1).astype(np.float32)
    labels = (rows["income"].str.rstrip(".") == about.classes[1]).astype(np.uint8)
    arrays: Arrays = {}
    for split in splits:
        arrays |= {f"x_{split}": features.loc[split].to_numpy(), f"y_{split}": labels.loc[split].to_numpy()}
        arrays |= {f"{name}_{split}": rows.loc[split, name].to_numpy(str) for name in about.columns}
    return arrays
