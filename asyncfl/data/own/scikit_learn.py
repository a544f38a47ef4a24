"""Small data sets that come with scikit-learn: they are on every machine, and they are real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.component import default_property
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import Samples, split_train_test, standardise_target

ScikitLearnName = Literal["breast_cancer", "diabetes", "digits", "iris", "wine"]

TITLES: dict[ScikitLearnName, str] = {
    "breast_cancer": "Breast Cancer Wisconsin",
    "diabetes": "Diabetes of Efron et al. (2004)",
    "digits": "Optical Recognition of Handwritten Digits",
    "iris": "Iris",
    "wine": "Wine",
}
"""`diabetes` is a regression, the progression of the disease within a year; the others are classes, of the UCI Machine
Learning Repository."""
LICENCES: dict[ScikitLearnName, str] = {name: "none stated" if name == "diabetes" else "CC BY 4.0" for name in TITLES}


class ScikitLearn(Dataset):
    """A table or the digits of scikit-learn; a fifth of the samples, drawn once and for all, is to test on."""

    kind: Literal["scikit_learn"] = "scikit_learn"
    alongside: ClassVar[Mapping[str, Any]] = {"data.samples_per_client": None}
    name: Annotated[ScikitLearnName, Field(examples=["breast_cancer"])]
    """Which of its data sets."""
    standardised: bool = True
    """Whether the columns of a table (and the numbers of a regression) are brought to mean 0 and deviation 1, as
    measured on the samples to train on."""

    @default_property
    def title(self) -> str:
        """Its name in words."""
        return TITLES[self.name]

    def load(self) -> Samples:
        """Rows of numbers, or pictures of 8 x 8 pixels as bytes."""
        import sklearn.datasets

        given: Any = getattr(sklearn.datasets, f"load_{self.name}")(**_ASKED.get(self.name, {}))
        train, test = split_train_test(len(given.target))
        if self.name == "digits":
            features = np.rint(given.images * (255 / 16)).astype(np.uint8)
        else:
            features = given.data
            if self.standardised:
                features = (features - features[train].mean(0)) / features[train].std(0)
            features = features.astype(np.float32)
        if self.name == "diabetes":
            labels, caption = standardise_target(given.target, train) if self.standardised else (given.target, "")
            labels = labels.astype(np.float32)
            return Samples(features[train], labels[train], features[test], labels[test], caption=caption)
        labels, names = given.target.astype(np.int64), [str(name) for name in given.target_names]
        return Samples(features[train], labels[train], features[test], labels[test], names)


_ASKED: dict[ScikitLearnName, dict[str, bool]] = {"diabetes": {"scaled": False}}
"""Otherwise its columns come scaled to length 1, over the samples to test on as well."""
