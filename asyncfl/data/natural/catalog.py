"""Facts about the data sets whose samples have owners (LEAF, Caldas et al. 2018, arXiv:1812.01097), and of a census
whose people may be grouped by what they do, learnt or come from (Adult, Kohavi 1996)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asyncfl.data.natural.adult import INCOMES, VALUES, WIDTH

NaturalName = Literal["femnist", "shakespeare", "adult"]

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The characters of Shakespeare's works, in the order of their classes; any other counts as a space."""
WINDOW = 80
"""Characters that the next one is told from."""
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The classes of FEMNIST, in their order."""


@dataclass(frozen=True)
class NaturalSet:
    """Facts about one of them."""

    name: NaturalName
    title: str
    columns: tuple[str, ...]
    """Columns that say whose a sample is, or where it belongs."""
    shape: str
    """What a sample is, in words."""
    classes: tuple[str, ...]
    hub: str
    """Its name on the Hugging Face hub, from where `datasets` downloads it and compares checksums; empty: it is not
    from there."""
    official: int
    """Samples of the complete original."""
    licence: str
    embedded: str
    """What stands in for it where it is not on disk."""

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
"""Name -> facts."""
