"""Small data sets that come with scikit-learn: they are on every machine, and they are real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.component import default_property
from asyncfl.data.own.base import Dataset
from asyncfl.data.own.samples import Samples, split_off

BundledName = Literal["breast_cancer", "digits", "iris", "wine"]

TITLES: dict[BundledName, str] = {
    "breast_cancer": "Breast Cancer Wisconsin",
    "digits": "Optical Recognition of Handwritten Digits",
    "iris": "Iris",
    "wine": "Wine",
}
"""All four are of the UCI Machine Learning Repository."""
LICENCE = "CC BY 4.0"
"""Of all four."""


class Bundled(Dataset):
    """A table or the digits of scikit-learn; a fifth of the samples, drawn once and for all, is to test on."""

    kind: Literal["scikit_learn"] = "scikit_learn"
    alongside: ClassVar[Mapping[str, Any]] = {"data.samples_per_client": None}
    name: Annotated[BundledName, Field(examples=["breast_cancer"])]
    """Which of its data sets."""
    standardised: bool = True
    """Whether the columns of a table are brought to mean 0 and deviation 1, as measured on the samples to train on."""

    @default_property
    def title(self) -> str:
        """Its name in words."""
        return TITLES[self.name]

    def load(self) -> Samples:
        """Rows of numbers, or pictures of 8 x 8 pixels as bytes."""
        import sklearn.datasets

        given: Any = getattr(sklearn.datasets, f"load_{self.name}")()
        names = [str(name) for name in given.target_names]
        train, test = split_off(len(given.target))
        if self.name == "digits":
            features = np.rint(given.images * (255 / 16)).astype(np.uint8)
        else:
            features = given.data
            if self.standardised:
                features = (features - features[train].mean(0)) / features[train].std(0)
            features = features.astype(np.float32)
        labels = given.target.astype(np.int64)
        return Samples(features[train], labels[train], features[test], labels[test], names)
