"""Styles of stand-ins: characters of fonts and handwritten digits, drawn from labels and uniform random numbers.

A style uses a fixed number of random numbers per sample, so a sample depends only on its label and its own numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.data.glyphs import DRAWS, HEIGHT, SANS, UPRIGHT, WINDOW, Distortion, atlas, distances
from asyncfl.data.sample_source import Floats, Ints, Split

_RESOLUTION = 48
_STEEPNESS = 3.0
"""Width in pixels of the transition from full ink to none; the originals have grey levels, not outlines."""
_TEST_SHARE = 0.2
PATCH_DRAWS = 5
"""Uniform random numbers per patch of a photograph."""


@dataclass(frozen=True)
class Style(ABC):
    """A style of drawing `characters`, one class each, in the `fonts`."""

    distortion: Distortion
    characters: str = "0123456789"
    fonts: tuple[str, ...] = SANS + UPRIGHT
    side: int = 28
    """Height and width of an image."""

    own_draws: ClassVar[int]
    """Random numbers per sample beside those of the distortion, which come last. The first one chooses the font."""

    @property
    def draws(self) -> int:
        """Uniform random numbers per sample."""
        return self.own_draws + DRAWS

    @abstractmethod
    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        """Draw the images (n, height, width[, 3]) of the `labels`, with random numbers `draws` (n, self.draws) in
        0..1."""

    def outlines(self, labels: Ints, draws: Floats, offset_x: Floats | float = 0.0) -> Floats:
        """Compute distances (n, pixels) to the outlines of the labels' characters, see `glyphs.distances`."""
        glyph = labels * len(self.fonts) + (draws[:, 0] * len(self.fonts)).astype(np.int64)
        maps = atlas(self.characters, self.fonts)
        return distances(maps, glyph, self.side, self.distortion, draws[:, -DRAWS:], offset_x)

    def background(self, draws: Floats) -> Floats:
        """Cut patches (n, pixels, 3) of photographs, see `patches`."""
        return patches(self.side, draws[:, -DRAWS - PATCH_DRAWS : -DRAWS])

    def coloured(self, image: Floats) -> NDArray[np.uint8]:
        """Convert numbers (n, pixels, 3), clipped to 0..1, to bytes (n, side, side, 3)."""
        clipped = np.clip(image, 0.0, 1.0)
        clipped *= 255
        return clipped.astype(np.uint8).reshape(-1, self.side, self.side, 3)


def between(low: float, high: float, draws: Floats) -> Floats:
    """Scale uniform random numbers 0..1 to low..high."""
    return low + (high - low) * draws


def coverage(distances: Floats, softness: float | Floats) -> Floats:
    """Compute the share of each pixel, 0..1, that a stroke covers: a ramp `softness` pixels wide across the outline.
    Works in place."""
    distances /= softness
    distances += 0.5
    return np.clip(distances, 0.0, 1.0, out=distances)


@dataclass(frozen=True)
class Strokes(Style):
    """Grey images of characters."""

    own_draws = 2

    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        covered = coverage(self.outlines(labels, draws), 1.2)
        covered *= 255 * between(0.85, 1.0, draws[:, 1, None])
        return covered.astype(np.uint8).reshape(-1, self.side, self.side)


@dataclass(frozen=True)
class Inverted(Style):
    """Digits that invert the texture behind them: |texture - digit|, the recipe of MNIST-M (Ganin et al. 2016)."""

    own_draws = 1 + PATCH_DRAWS

    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        return self.coloured(np.abs(self.background(draws) - coverage(self.outlines(labels, draws), 1.2)[..., None]))


@dataclass(frozen=True)
class Coloured(Style):
    """Characters of one colour, outlined in another, on textures; digits look like those of SynthDigits."""

    own_draws = 8 + PATCH_DRAWS

    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        found = self.outlines(labels, draws)
        image = self.background(draws)
        brightness = image.mean((1, 2))[:, None]
        bright = brightness < between(0.35, 0.65, draws[:, 1, None])
        ink = np.where(bright, between(0.75, 1.0, draws[:, 2:5]), between(0.0, 0.25, draws[:, 2:5]))
        # One channel is arbitrary, which gives a hue.
        ink[np.arange(len(ink)), (draws[:, 5] * 3).astype(np.int64)] = draws[:, 6]
        edge = np.where(draws[:, 7, None] < 0.5, 1.0 - ink, ink)
        image += coverage(found + 0.8, 1.2)[..., None] * (edge[:, None] - image)
        image += coverage(found, 1.2)[..., None] * (ink[:, None] - image)
        return self.coloured(image)


@dataclass(frozen=True)
class HouseNumbers(Style):
    """Digits on a plain, unevenly lit wall, out of focus, often with cropped neighbours, like SVHN."""

    own_draws = 16 + PATCH_DRAWS

    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        found = self.outlines(labels, draws)
        for side, present, digit in ((-1, 1, 2), (1, 3, 4)):
            with_neighbour = np.flatnonzero(draws[:, present] < 0.5)
            theirs = draws[with_neighbour]
            offset = side * between(15.0, 18.0, theirs[:, 5])
            beside = self.outlines((theirs[:, digit] * 10).astype(np.int64), theirs, offset)
            found[with_neighbour] = np.maximum(found[with_neighbour], beside)
        covered = coverage(found, between(1.5, 4.0, draws[:, 6, None]))
        wall = between(0.2, 0.8, draws[:, 7, None])
        contrast = between(0.25, 0.55, draws[:, 8, None]) * np.where(wall + 0.4 * draws[:, 9, None] < 0.75, 1.0, -1.0)
        tint = between(-0.1, 0.1, draws[:, 10:13])
        # A light with a constant gradient in a random direction.
        axis = np.linspace(-1, 1, self.side, dtype=np.float32)
        y, x = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
        light: Floats = between(-0.1, 0.1, draws[:, 13:15]) @ np.stack([x, y])
        image = wall[:, None] + tint[:, None] + light[..., None] + 0.35 * (self.background(draws) - 0.5)
        hue = between(-0.15, 0.15, draws[:, 15, None]) * np.array([1.0, 0.0, -1.0], np.float32)
        image += covered[..., None] * (contrast + hue)[:, None]
        return self.coloured(image)


@dataclass(frozen=True)
class Handwriting(Style):
    """Grey images of handwritten digits. Training never uses the originals of the test split (the last fifth of each
    class)."""

    own_draws = 1

    def render(self, labels: Ints, draws: Floats, split: Split) -> NDArray[np.uint8]:
        maps, starts = _originals()
        counts = np.diff(starts)[labels]
        training = np.round(counts * (1 - _TEST_SHARE))
        first, many = (0, training) if split == "train" else (training, counts - training)
        chosen = (starts[labels] + first + np.floor(draws[:, 0] * many)).astype(np.int64)
        covered = coverage(distances(maps, chosen, self.side, self.distortion, draws[:, 1:]), _STEEPNESS)
        return (255 * covered).astype(np.uint8).reshape(-1, self.side, self.side)


@lru_cache(maxsize=1)
def _originals() -> tuple[Floats, Ints]:
    """Return maps like those of fonts, sorted by class, and the start of each class (the last entry: the total)."""
    from scipy.ndimage import zoom
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.argsort(digits.target, kind="stable")
    images = digits.images[order] / 16.0
    side = round(_RESOLUTION * 1.15 * HEIGHT / WINDOW)
    enlarged = zoom(images, (1, side / 8, side / 8), order=1, grid_mode=True, mode="nearest")
    maps = np.full((len(images), _RESOLUTION, _RESOLUTION), -_STEEPNESS, np.float32)
    edge = (_RESOLUTION - side) // 2
    maps[:, edge : edge + side, edge : edge + side] = (enlarged - 0.5) * _STEEPNESS
    return maps, np.searchsorted(digits.target[order], np.arange(11)).astype(np.int64)


def patches(side: int, draws: Floats) -> Floats:
    """Cut patches (n, side * side, 3), 0..1, from the photographs, half of them mirrored, half at half the
    resolution."""
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
    """Return the photographs (2, 427, 640, 3)."""
    from sklearn.datasets import load_sample_images

    return np.stack(load_sample_images().images)
