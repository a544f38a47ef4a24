"""Stand-in for Shakespeare: sentences of a small grammar, by roles who each prefer other words."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import Streams
from asyncfl.data.natural.catalog import CHARACTERS, WINDOW
from asyncfl.data.own.samples import Samples

ROLES = 100
_WORDS = {
    "D": ("the", "a", "my", "thy", "this", "that", "our", "no", "every", "some"),
    "A": ("good", "cold", "sweet", "old", "bright", "false", "gentle", "proud", "weary", "noble", "dark", "merry"),
    "N": (
        *("king", "night", "sword", "friend", "heart", "crown", "brother", "sea", "lady", "fool", "storm", "word"),
        *("ghost", "garden", "soldier", "letter", "father", "candle", "throne", "road", "daughter", "winter"),
    ),
    "V": (
        *("loves", "fears", "keeps", "breaks", "hears", "calls", "leaves", "follows", "forgets", "finds", "curses"),
        *("swears by", "weeps for", "laughs at", "waits for", "speaks of"),
    ),
    "P": ("in", "before", "beyond", "under", "without", "against", "behind"),
    "B": ("now", "here", "again", "never", "softly", "at last", "tonight", "too late"),
    "E": (".", "!", "?", ";", ",\nand", ":\nfor", ".\n"),
}
"""Part of speech -> its words."""
_SENTENCES = ("DNVDNE", "DANVDNBE", "BDNVDANE", "DNVDNPDNE", "DNBVDAANE", "PDNDNVDNE")


def draw_shakespeare() -> Samples:
    """Draw about 45,000 windows (n, 80) of characters, the next character of each, and the column `role`; the same on
    every call."""
    streams, place = Streams(0), zlib.crc32(b"shakespeare") >> 1
    known = {character: number for number, character in enumerate(CHARACTERS)}
    windows, following, roles = [], [], []
    for role in range(ROLES):
        random = streams.generator("stand_ins", place, role)
        length = WINDOW + int(np.clip(random.lognormal(np.log(400), 0.5), 80, 2000))
        text = _speech(random, length)
        numbers = np.array([known[character] for character in text], np.uint8)
        seen: NDArray[np.uint8] = np.lib.stride_tricks.sliding_window_view(numbers, WINDOW)[:-1]
        windows.append(seen)
        following.append(numbers[WINDOW:])
        roles.append(np.full(len(seen), role))
    return Samples(
        np.concatenate(windows),
        np.concatenate(following),
        classes=tuple(CHARACTERS),
        columns={"role": np.concatenate(roles)},
    )


def _speech(random: np.random.Generator, length: int) -> str:
    """Draw a text of `length` characters, with the role's preferred words and forms of sentences."""
    favour = {part: random.dirichlet(np.full(len(words), 0.4)) for part, words in _WORDS.items()}
    forms = random.dirichlet(np.full(len(_SENTENCES), 0.7))
    text, begins = "", True
    while len(text) < length:
        for part in _SENTENCES[int(random.choice(len(_SENTENCES), p=forms))]:
            word = _WORDS[part][int(random.choice(len(_WORDS[part]), p=favour[part]))]
            if part == "E":
                text += word
                begins = word[0] in ".!?"
                continue
            if text and not text.endswith("\n"):
                text += " "
            text += word[0].upper() + word[1:] if begins else word
            begins = False
    return text[:length]
