"""The source of data sets with owners: their file, a download, or stand-ins."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from asyncfl.base.errors import DataError, Fault
from asyncfl.data.federated import Source
from asyncfl.data.folder import find
from asyncfl.data.natural.adult_stand_in import draw_adult
from asyncfl.data.natural.catalog import NATURAL, NaturalSet
from asyncfl.data.natural.femnist_stand_in import draw_femnist
from asyncfl.data.natural.fetch import fetch_natural
from asyncfl.data.natural.shakespeare_stand_in import draw_shakespeare
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.dataset import load_source
from asyncfl.data.own.npz import NpzFile
from asyncfl.data.own.samples import Samples

_DRAWN = {"femnist": draw_femnist, "shakespeare": draw_shakespeare, "adult": draw_adult}


class NaturalSource(ArraySource):
    """Samples of such a data set, real or drawn."""

    def __init__(self, about: NaturalSet, samples: Samples, drawn: bool) -> None:
        super().__init__(about.name, about.title, samples)
        self._about, self.drawn = about, drawn

    @property
    def is_original(self) -> bool:
        """Whether there are as many samples as in the complete original."""
        return not self.drawn and self.size("train") + self.size("test") == self._about.official

    @property
    def provenance(self) -> str:
        """Origin of the samples in one line, for captions."""
        count = f"{self.size('train')} + {self.size('test')} samples"
        if self.drawn:
            return f"stand-in for {self.title}: {self._about.embedded} ({count})"
        return f"{self.title}, {'complete' if self.is_original else 'not the complete original'} ({count})"


def natural_on_disk(name: str) -> bool:
    """Whether the data set has a file; its contents are not read. Raises DataError if ASYNCFL_DATA_DIR names no
    folder."""
    return find(NATURAL[name].filename) is not None


def natural_source(name: str, source: Source) -> ArraySource:
    """Load the samples of the data set `name`: from its file, which is downloaded if missing, or stand-ins.

    Raises DataError for a file that is damaged, or missing and not to be downloaded.
    """
    about = NATURAL[name]
    if source == "embedded":
        return _stand_in(name)
    path = find(about.filename) or fetch_natural(about)
    found = load_source(NpzFile(path=str(path), classes=len(about.classes)))
    if missing := [name for name in about.columns if name not in found.columns]:
        raise DataError((Fault(f"{name}_train", "is missing; it says whose each sample is") for name in missing), path)
    return _of_file(about, found)


@lru_cache(maxsize=2)
def _stand_in(name: str) -> NaturalSource:
    return NaturalSource(NATURAL[name], _DRAWN[name](), drawn=True)


@lru_cache(maxsize=2)
def _of_file(about: NaturalSet, found: ArraySource) -> NaturalSource:
    return NaturalSource(about, replace(found.samples, classes=about.classes), drawn=False)
