"""Stand-ins for image data sets that are not on disk: drawn images, unlimited in number, the same in every run.

Sample i of a split is drawn from the random numbers of block i // BLOCK, so it does not depend on the other samples
that are requested. Each block contains all classes equally often, as nearly as 500 samples allow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import Streams
from asyncfl.data.catalog import LETTERS, CatalogEntry
from asyncfl.data.glyphs import DRAWS, SANS, SLANTED, UPRIGHT, WIDE, Distortion, atlas, distances
from asyncfl.data.own.samples import Samples
from asyncfl.data.sample_source import Floats, Ints, Rng, SampleSource, Split

BLOCK = 500
BLOCKS = 2**30  # blocks per split, enough for every seed to use samples of its own
TEST_SAMPLES = 2000  # default size of the test set

_WRITTEN = Distortion(turn=15, shear=0.25, stretch=0.2, scale=(0.8, 1.05), shift=1.6, bend=0.9, width=(-0.6, 1.2))
_SLIGHT = Distortion(turn=6, shear=0.1, stretch=0.08, scale=(0.95, 1.1), shift=0.8, bend=0.4, width=(-0.5, 0.0))
_PRINTED = Distortion(turn=12, shear=0.15, stretch=0.15, scale=(0.8, 1.1), shift=1.5, bend=0.4, width=(-0.2, 1.0))
_MOUNTED = Distortion(turn=8, shear=0.15, stretch=0.15, scale=(0.9, 1.15), shift=1.2, bend=0.3, width=(0.0, 1.5))

_DIGITS = "0123456789"
_LATIN = _DIGITS + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HUNDRED = _LATIN + "abdefghijmnqrtyΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπρστφχψωБДЖЗИЛУЦЧШЩЪЫЭЮЯ&%@#"
"""A hundred characters of different shapes; no two differ only in size."""

PATCH_DRAWS = 5  # uniform random numbers per patch of a photograph
_OWN_DRAWS = {"strokes": 2, "inverted": 1 + PATCH_DRAWS, "coloured": 8 + PATCH_DRAWS}


@dataclass(frozen=True)
class Style:
    """A style of drawing `characters`, one class each, in the `fonts`. It uses a fixed number of random numbers per
    sample, so a sample depends only on its label and its own numbers."""

    look: Literal["strokes", "inverted", "coloured"]
    """`strokes`: grey characters on black. `inverted`: |photograph - character|, the recipe of MNIST-M (Ganin et al.
    2016). `coloured`: characters of one colour, outlined in another, on photographs, like SynthDigits."""
    distortion: Distortion
    characters: str = _DIGITS
    fonts: tuple[str, ...] = SANS + UPRIGHT
    side: int = 28  # height and width of an image

    @property
    def draws(self) -> int:
        """Uniform random numbers per sample: one for the font, those of the look, and those of the distortion."""
        return _OWN_DRAWS[self.look] + DRAWS

    def render(self, labels: Ints, draws: Floats) -> NDArray[np.uint8]:
        """Draw the images (n, height, width[, 3]) of the `labels`, with random numbers `draws` (n, self.draws) in
        0..1."""
        glyph = labels * len(self.fonts) + (draws[:, 0] * len(self.fonts)).astype(np.int64)
        maps = atlas(self.characters, self.fonts)
        found = distances(maps, glyph, self.side, self.distortion, draws[:, -DRAWS:])
        if self.look == "strokes":
            covered = _coverage(found)
            covered *= 255 * _between(0.85, 1.0, draws[:, 1, None])
            return covered.astype(np.uint8).reshape(-1, self.side, self.side)
        image = patches(self.side, draws[:, -DRAWS - PATCH_DRAWS : -DRAWS])
        if self.look == "inverted":
            image = np.abs(image - _coverage(found)[..., None])
        else:
            brightness = image.mean((1, 2))[:, None]
            bright = brightness < _between(0.35, 0.65, draws[:, 1, None])
            ink = np.where(bright, _between(0.75, 1.0, draws[:, 2:5]), _between(0.0, 0.25, draws[:, 2:5]))
            # One channel is arbitrary, which gives a hue.
            ink[np.arange(len(ink)), (draws[:, 5] * 3).astype(np.int64)] = draws[:, 6]
            edge = np.where(draws[:, 7, None] < 0.5, 1.0 - ink, ink)
            image += _coverage(found + 0.8)[..., None] * (edge[:, None] - image)
            image += _coverage(found)[..., None] * (ink[:, None] - image)
        image = np.clip(image, 0.0, 1.0)
        image *= 255
        return image.astype(np.uint8).reshape(-1, self.side, self.side, 3)


def _between(low: float, high: float, draws: Floats) -> Floats:
    return low + (high - low) * draws


def _coverage(distances: Floats) -> Floats:
    """Compute the share of each pixel, 0..1, that a stroke covers: a ramp across the outline. Works in place."""
    distances /= 1.2
    distances += 0.5
    return np.clip(distances, 0.0, 1.0, out=distances)


def patches(side: int, draws: Floats) -> Floats:
    """Cut patches (n, side * side, 3), 0..1, from scikit-learn's two photographs, half of them mirrored, half at half
    the resolution."""
    photographs = _photographs()
    many, height, width, _ = photographs.shape
    photograph, step = (draws[:, 0] * many).astype(np.int64), 1 + (draws[:, 1] * 2).astype(np.int64)
    top, left = ((draws[:, 2 + axis] * (size - 2 * side)).astype(np.int64) for axis, size in ((0, height), (1, width)))
    run = np.arange(side)
    rows, columns = (start[:, None] + step[:, None] * run for start in (top, left))
    columns = np.where(draws[:, 4, None] < 0.5, columns, columns[:, ::-1])
    bytes_ = photographs[photograph[:, None, None], rows[:, :, None], columns[:, None, :]]
    found: Floats = bytes_.reshape(len(draws), side * side, 3) / np.float32(255)
    return found


@lru_cache(maxsize=1)
def _photographs() -> NDArray[np.uint8]:
    from sklearn.datasets import load_sample_images

    return np.stack(load_sample_images().images)


_ALL_FONTS = UPRIGHT + SLANTED
STYLES: dict[str, Style] = {
    "mnist": Style("strokes", _WRITTEN, _DIGITS, _ALL_FONTS),
    "fashion_mnist": Style("strokes", replace(_WRITTEN, shift=2.0), "ABCDEFGHIJ", _ALL_FONTS),
    "usps": Style("strokes", _SLIGHT, side=16),
    "svhn": Style("coloured", _MOUNTED, side=32),
    "street_digits": Style("coloured", _MOUNTED, side=32),
    "mnist_m": Style("inverted", _WRITTEN, _DIGITS, _ALL_FONTS),
    "synth_digits": Style("coloured", _PRINTED, side=32),
    "cifar10": Style("coloured", _PRINTED, "KLMNOPQRST", side=32),
    "cifar100": Style("coloured", _PRINTED, _HUNDRED, WIDE, side=32),
    "emnist": Style("strokes", _WRITTEN, _LATIN + "abdefghnqrt", UPRIGHT),
}
"""Data set -> style of its stand-in.

The distortions of `mnist` and `fashion_mnist` are chosen so that a linear model trained on 5,000 samples is about as
accurate as on the originals: .89 and .87 (on the originals .88 and .80; logistic regression).
"""
_STREAMS = Streams(0)


class StandIns(SampleSource):
    """The drawn images that stand in for one data set."""

    is_original = False

    def __init__(self, dataset: CatalogEntry) -> None:
        self.dataset, self.name, self.title, self.scale = dataset, dataset.name, dataset.title, dataset.scale
        self.provenance = f"stand-in for {dataset.title}: {dataset.embedded}"
        self._style = STYLES[dataset.name]

    def size(self, split: Split) -> int:
        return BLOCK * BLOCKS

    def default_size(self, split: Split = "train") -> int:
        return self.dataset.official[split == "test"] if self.dataset.official else TEST_SAMPLES

    def test_size(self, split: Split = "test") -> int:
        return TEST_SAMPLES

    def labels(self, split: Split, indices: Ints) -> Ints:
        labels = np.empty(len(indices), np.int64)
        for rows, inside, _, drawn in self._blocks(split, indices):
            labels[rows] = drawn[inside]
        return labels

    def images(self, split: Split, indices: Ints) -> NDArray[np.uint8]:
        images = np.empty((len(indices), *self.dataset.image_shape), np.uint8)
        for rows, inside, rng, labels in self._blocks(split, indices):
            draws = rng.random((BLOCK, self._style.draws), np.float32)
            images[rows] = self._style.render(labels[inside], draws[inside])
        return images

    def _blocks(self, split: Split, indices: Ints) -> Iterator[tuple[Ints, Ints, Rng, Ints]]:
        """Yield for each block in use the positions in `indices`, the positions inside the block, and the block's
        random numbers after its labels were drawn, with these labels."""
        purpose = zlib.crc32(f"{self.name}/{split}".encode()) >> 1
        order = np.argsort(indices // BLOCK, kind="stable")
        numbers, starts = np.unique(indices[order] // BLOCK, return_index=True)
        for block, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            rng = _STREAMS.generator("stand_ins", purpose, block)
            yield rows, indices[rows] % BLOCK, rng, rng.permutation(np.arange(BLOCK) % len(self._style.characters))

    def candidates(self, samples: int, rng: Rng, split: Split = "train") -> Ints:
        """Return at least `samples` candidates for training: consecutive whole blocks that depend on the seed."""
        blocks = -(-samples // BLOCK)
        first = int(rng.integers(BLOCKS - blocks))
        return np.arange(first * BLOCK, (first + blocks) * BLOCK)

    def test_set(self, count: int | None, rng: Rng, split: Split = "test") -> tuple[NDArray[np.uint8], Ints, Ints]:
        """Return images, labels and indices of the first `count` test samples (None: 2000), the same for every seed."""
        count = TEST_SAMPLES if count is None else count
        return *_first_samples(self.dataset, split, count), np.arange(count)

    def unused(self, count: int, used: Ints, rng: Rng, split: Split = "train") -> Ints:
        """Return `count` samples that are not in `used`: those after them, or those before them at the end of the
        split."""
        first = int(used.max(initial=-1)) + 1
        if first + count > self.size(split):
            first = int(used.min()) - count
        return np.arange(first, first + count)


@lru_cache(maxsize=8)
def _first_samples(dataset: CatalogEntry, split: Split, samples: int) -> tuple[NDArray[np.uint8], Ints]:
    source, indices = StandIns(dataset), np.arange(samples)
    return source.images(split, indices), source.labels(split, indices)


_WRITERS = 100
_HABIT = 0.75
"""Weight of the writer's own value in each random number of a distortion; the rest varies from sample to sample."""
_BY_HAND = Distortion(turn=20, shear=0.35, stretch=0.25, scale=(0.75, 1.05), shift=2.0, bend=0.9, width=(-0.6, 1.4))


def draw_femnist() -> Samples:
    """Draw the stand-in for FEMNIST, by writers who each have their own font, slant and stroke width.

    About 22,000 images (n, 28, 28) with labels 0..61 and the column `writer`; the same on every call.
    """
    style = Style("strokes", _BY_HAND, LETTERS, UPRIGHT[:6])
    images, labels = [], []
    for writer in range(_WRITERS):
        random = _STREAMS.generator("stand_ins", zlib.crc32(b"femnist") >> 1, writer)
        count = int(np.clip(random.lognormal(np.log(200), 0.35), 60, 500))
        mixture = random.dirichlet(np.full(len(LETTERS), 4.0))
        labels.append(random.choice(len(LETTERS), count, p=mixture))
        habits = random.random(style.draws, np.float32)
        draws = _HABIT * habits + (1 - _HABIT) * random.random((count, style.draws), np.float32)
        draws[:, 0] = habits[0]  # a writer uses one font
        images.append(style.render(labels[-1], draws))
    writers = np.repeat(np.arange(_WRITERS), [len(own) for own in labels])
    return Samples(np.concatenate(images), np.concatenate(labels), classes=tuple(LETTERS), columns={"writer": writers})
