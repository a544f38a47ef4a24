"""Data sets that nobody offers for download in one piece, made by their recipes.

- `mnist_m`: the absolute difference of an MNIST digit and a patch of a photograph (Ganin et al. 2016,
  Domain-Adversarial Training of Neural Networks, section 5.2.2).
- `synth_digits`: digits of fonts, turned and sheared, on photographs (the same paper; the original is not this one).

The photographs are scikit-learn's two; the original MNIST-M has those of BSDS500.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import Streams
from asyncfl.data.catalog import CATALOG
from asyncfl.data.embedded import textures
from asyncfl.data.embedded.embedded_source import EmbeddedSource
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.sample_source import Split

REMADE = ("mnist_m", "synth_digits")
"""Names of the data sets that are made."""

_SIZES: Mapping[Split, int] = {"train": 8000, "test": 2000}
"""Number of images of each split, enough for experiments; the originals are larger."""

Images = NDArray[np.uint8]


def make_mnist_m(split: Split, mnist: Path) -> tuple[Images, Images]:
    """Make images (n, 28, 28, 3) and labels (n,) from the first digits of the file of MNIST."""
    digits = ImageFileSource(CATALOG["mnist"], mnist)
    chosen = np.arange(min(_SIZES[split], digits.size(split)))
    random = Streams(0).generator("stand_ins", zlib.crc32(f"recipe of mnist_m/{split}".encode()) >> 1)
    ground = textures.patches(28, random.random((len(chosen), textures.DRAWS), np.float32)).reshape(-1, 28, 28, 3)
    images = np.abs(255 * ground - digits.images(split, chosen)[..., None])
    return np.rint(images).astype(np.uint8), digits.labels(split, chosen).astype(np.uint8)


def make_synth_digits(split: Split) -> tuple[Images, Images]:
    """Draw images (n, 32, 32, 3) and labels (n,)."""
    source, chosen = EmbeddedSource(CATALOG["synth_digits"]), np.arange(_SIZES[split])
    return source.images(split, chosen), source.labels(split, chosen).astype(np.uint8)
