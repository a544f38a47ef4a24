"""Stand-in for FEMNIST: characters of fonts, by writers who each have their own font, slant and stroke width."""

from __future__ import annotations

import zlib

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.data.embedded.characters import Strokes
from asyncfl.data.embedded.glyphs import UPRIGHT
from asyncfl.data.embedded.warp import Distortion
from asyncfl.data.natural.catalog import LETTERS
from asyncfl.data.own.samples import Samples

WRITERS = 100
HABIT = 0.75
"""Weight of the writer's own value in each random number of a distortion; the rest varies from sample to sample."""
_FONTS = UPRIGHT[:6]
_DISTORTION = Distortion(turn=20, shear=0.35, stretch=0.25, scale=(0.75, 1.05), shift=2.0, bend=0.9, width=(-0.6, 1.4))


def draw_femnist() -> Samples:
    """Draw about 22,000 images (n, 28, 28) with labels 0..61 and the column `writer`; the same on every call."""
    style, streams = Strokes(LETTERS, _FONTS, _DISTORTION), Streams(0)
    place = zlib.crc32(b"femnist") >> 1
    images, labels, writers = [], [], []
    for writer in range(WRITERS):
        random = streams.generator("stand_ins", place, writer)
        count = int(np.clip(random.lognormal(np.log(200), 0.35), 60, 500))
        mixture = random.dirichlet(np.full(len(LETTERS), 4.0))
        own = random.choice(len(LETTERS), count, p=mixture)
        habits = random.random(style.draws, np.float32)
        draws = HABIT * habits + (1 - HABIT) * random.random((count, style.draws), np.float32)
        draws[:, 0] = habits[0]  # a writer uses one font
        images.append(style.render(own, draws, "train"))
        labels.append(own)
        writers.append(np.full(count, writer))
    return Samples(
        np.concatenate(images),
        np.concatenate(labels),
        classes=tuple(LETTERS),
        columns={"writer": np.concatenate(writers)},
    )
