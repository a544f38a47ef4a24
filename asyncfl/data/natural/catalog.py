"""Facts about the data sets whose samples have owners: FEMNIST and Shakespeare (LEAF, Caldas et al. 2018,
arXiv:1812.01097), and Adult, a census whose people can be grouped by occupation, education or origin (Kohavi 1996)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asyncfl.data.natural.adult import INCOMES, VALUES, WIDTH

NaturalName = Literal["femnist", "shakespeare", "adult"]

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The characters of Shakespeare's works, in the order of their classes; any other character counts as a space."""
WINDOW = 80
"""Number of characters from which the next one is predicted."""
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The classes of FEMNIST, in order."""


@dataclass(frozen=True)
class NaturalSet:
    """Facts about one data set."""

    name: NaturalName
    title: str
    columns: tuple[str, ...]
    """Columns that give the owner or group of a sample."""
    shape: str
    """Shape of a sample, as text."""
    classes: tuple[str, ...]
    hub: str
    """Name on the Hugging Face hub, from which `datasets` downloads it and compares checksums; empty: it is not on the
    hub."""
    official: int
    """Number of samples of the complete original."""
    licence: str
    embedded: str
    """Description of its stand-in."""

    @property
    def filename(self) -> str:
        return f"{self.name}.npz"


NATURAL: dict[str, NaturalSet] = {
    one.name: one
    for one in (
        NaturalSet(
            "femnist",
            "FEMNIST",
            ("writer",),
            "28x28",
            tuple(LETTERS),
            "flwrlabs/femnist",
            814_277,
            "BSD 2-Clause (pictures: NIST, public domain)",
            "digits and letters drawn from fonts by 100 writers, each in a hand of its own",
        ),
        NaturalSet(
            "shakespeare",
            "Shakespeare",
            ("role",),
            str(WINDOW),
            tuple(CHARACTERS),
            "flwrlabs/shakespeare",
            4_226_158,
            "BSD 2-Clause (text: public domain)",
            "sentences made of a few words by 100 roles, each with favourites of its own",
        ),
        NaturalSet(
            "adult",
            "Adult",
            tuple(VALUES),
            str(WIDTH),
            INCOMES,
            "",
            48_842,
            "CC BY 4.0",
            "people drawn to the shares of a census, with incomes by a formula",
        ),
    )
}
"""Data set name -> facts."""
