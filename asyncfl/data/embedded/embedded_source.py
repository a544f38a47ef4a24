"""Stand-ins for data sets that are not on disk: drawn, unlimited in number, the same on every call.

Sample i of a split is drawn from random numbers of block i // BLOCK, so it is the same whatever else is asked
for. Each block holds all classes equally often, or nearly so where there are not 500 over a
whole number.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.catalog import CatalogEntry
from asyncfl.data.embedded.characters import Coloured, HouseNumbers, Inverted, Strokes
from asyncfl.data.embedded.glyphs import SLANTED, UPRIGHT, WIDE
from asyncfl.data.embedded.handwriting import Handwriting
from asyncfl.data.embedded.style import Style
from asyncfl.data.embedded.warp import Distortion
from asyncfl.data.pixels import to_float
from asyncfl.data.sample_source import SampleSource, Split
from asyncfl.streams import Streams

BLOCK = 500
BLOCKS = 2**30
"""Blocks per split, enough for every seed to have samples of its own."""
TEST_SAMPLES = 2000
"""Size of the test set unless another is asked for."""

_WRITTEN = Distortion(turn=15, shear=0.25, stretch=0.2, scale=(0.8, 1.05), shift=1.6, bend=0.9, width=(-0.6, 1.2))
_LETTERS = Distortion(turn=15, shear=0.25, stretch=0.2, scale=(0.8, 1.05), shift=2.0, bend=0.9, width=(-0.6, 1.2))
_SLIGHT = Distortion(turn=6, shear=0.1, stretch=0.08, scale=(0.95, 1.1), shift=0.8, bend=0.4, width=(-0.5, 0.0))
_PRINTED = Distortion(turn=12, shear=0.15, stretch=0.15, scale=(0.8, 1.1), shift=1.5, bend=0.4, width=(-0.2, 1.0))
_MOUNTED = Distortion(turn=8, shear=0.15, stretch=0.15, scale=(0.9, 1.15), shift=1.2, bend=0.3, width=(0.0, 1.5))

_LATIN = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HUNDRED = _LATIN + "abdefghijmnqrtyΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπρστφχψωБДЖЗИЛУЦЧШЩЪЫЭЮЯ&%@#"
"""Of different shapes; no two differ by size alone."""

STYLES: dict[str, Style] = {
    "mnist": Strokes("0123456789", UPRIGHT + SLANTED, _WRITTEN),
    "fashion_mnist": Strokes("ABCDEFGHIJ", UPRIGHT + SLANTED, _LETTERS),
    "usps": Handwriting(_SLIGHT),
    "svhn": HouseNumbers(_MOUNTED),
    "street_digits": HouseNumbers(_MOUNTED),
    "mnist_m": Inverted(_WRITTEN),
    "synth_digits": Coloured(_PRINTED),
    "cifar10": Coloured(_PRINTED, "KLMNOPQRST"),
    "cifar100": Coloured(_PRINTED, _HUNDRED, WIDE),
    "emnist": Strokes(_LATIN + "abdefghnqrt", UPRIGHT, _WRITTEN),
}
"""Data set -> what stands in for it.

The distortions of `mnist` and `fashion_mnist` are set so that a linear model trained on 5,000 samples is right about as
often as on the originals: .89 and .87 (on the originals .88 and .80; logistic regression).
"""


class EmbeddedSource(SampleSource):
    """The drawn images that stand in for one data set."""

    def __init__(self, dataset: CatalogEntry) -> None:
        self.dataset = dataset
        self._style = STYLES[dataset.name]

    @property
    def name(self) -> str:
        return self.dataset.name

    @property
    def title(self) -> str:
        return self.dataset.title

    @property
    def is_original(self) -> bool:
        """Stand-ins never are."""
        return False

    @property
    def provenance(self) -> str:
        """One line for captions."""
        return f"stand-in for {self.dataset.title}: {self.dataset.embedded}"

    def size(self, split: Split) -> int:
        """Number of images: more than anybody will draw."""
        return BLOCK * BLOCKS

    def default_size(self, split: Split = "train") -> int:
        """Samples that are shared out where no number is asked for: as many as the original has."""
        return self.dataset.official[split == "test"] if self.dataset.official else TEST_SAMPLES

    def labels(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n,) labels of the samples `indices`, 0 to BLOCK * BLOCKS - 1."""
        labels = np.empty(len(indices), np.int64)
        for block, rows, inside in _by_block(indices):
            labels[rows] = _generator(self.dataset.name, split, block)[1][inside]
        return labels

    def images(self, split: Split, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(n, height, width[, 3]) images of the samples `indices`, 0..255."""
        images = np.empty((len(indices), *self.dataset.image_shape), np.uint8)
        for block, rows, inside in _by_block(indices):
            rng, labels = _generator(self.dataset.name, split, block)
            draws = rng.random((BLOCK, self._style.draws), np.float32)
            images[rows] = self._style.render(labels[inside], draws[inside], split)
        return images

    def scaled(self, images: NDArray[np.uint8], standardised: bool) -> NDArray[np.float32]:
        """(n, channels, height, width): 0..1, or by the published mean and deviation of the original."""
        return to_float(images, self.dataset if standardised else None)

    def pool(self, samples: int, rng: np.random.Generator, split: Split = "train") -> NDArray[np.int64]:
        """Samples to train on, to choose from: at least `samples`, whole blocks in a row that are this seed's own."""
        blocks = -(-samples // BLOCK)
        first = int(rng.integers(BLOCKS - blocks))
        return np.arange(first * BLOCK, (first + blocks) * BLOCK)

    def test_set(
        self, count: int | None, rng: np.random.Generator, split: Split = "test"
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """Images, labels and indices of the first `count` samples to test on (None: 2000), the same for every seed."""
        count = TEST_SAMPLES if count is None else count
        return *_first_samples(self.dataset, split, count), np.arange(count)

    def unused(
        self, count: int, used: NDArray[np.int64], rng: np.random.Generator, split: Split = "train"
    ) -> NDArray[np.int64]:
        """`count` samples that are not among `used`: those that follow them, or those in front where they are last."""
        first = int(used.max(initial=-1)) + 1
        if first + count > self.size(split):
            first = int(used.min()) - count
        return np.arange(first, first + count)


def _by_block(indices: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """For each block that is touched: its number, the places in `indices`, the places inside the block."""
    blocks = indices // BLOCK
    order = np.argsort(blocks, kind="stable")
    numbers, starts = np.unique(blocks[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [(int(b), rows, indices[rows] % BLOCK) for b, rows in zip(numbers, parts, strict=True)]


def _generator(name: str, split: Split, block: int) -> tuple[np.random.Generator, NDArray[np.int64]]:
    """Random numbers of one block, and the labels that were drawn from them first."""
    purpose = zlib.crc32(f"{name}/{split}".encode()) >> 1
    rng = _STREAMS.generator("stand_ins", purpose, block)
    return rng, rng.permutation(np.arange(BLOCK) % STYLES[name].classes)


_STREAMS = Streams(0)


@lru_cache(maxsize=8)
def _first_samples(dataset: CatalogEntry, split: Split, samples: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    source, indices = EmbeddedSource(dataset), np.arange(samples)
    return source.images(split, indices), source.labels(split, indices)
