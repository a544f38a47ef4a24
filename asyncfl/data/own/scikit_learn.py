"""Small real data sets that ship with scikit-learn, so they are available on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import default_property
from asyncfl.data.catalog import ARRAY_SETS, ScikitLearnName
from asyncfl.data.own.dataset import Dataset
from asyncfl.data.own.samples import Samples, caption_of_target, split_train_test, standardise


class ScikitLearn(Dataset):
    """A table or the digits of scikit-learn; a random fifth of the samples, the same in every run, is used for
    testing. `diabetes` is a regression of the progression of the disease within a year."""

    kind: Literal["scikit_learn"] = "scikit_learn"
    alongside: ClassVar[Mapping[str, Any]] = {"data.samples_per_client": None}
    name: Annotated[ScikitLearnName, Field(examples=["breast_cancer"])]
    """Name of the data set in scikit-learn."""
    standardised: bool = True
    """Whether the columns of a table (and the target of a regression) are scaled to mean 0 and deviation 1, as measured
    on the test samples."""

    @default_property
    def title(self) -> str:
        return ARRAY_SETS[self.name].title

    def load(self) -> Samples:
        """Load rows of numbers, or images of 8 x 8 pixels as bytes."""
        import sklearn.datasets

        # By default the columns of diabetes are scaled to length 1 over all samples, including test samples.
        options = {"scaled": False} if self.name == "diabetes" else {}
        given: Any = getattr(sklearn.datasets, f"load_{self.name}")(**options)
        train, test = split_train_test(len(given.target))
        features, labels = given.data, given.target
        names, caption = None, ""
        if self.name == "digits":
            features = np.rint(given.images * (255 / 16)).astype(np.uint8)
        else:
            features = (standardise(features, features[test]) if self.standardised else features).astype(np.float32)
        if self.name != "diabetes":
            labels, names = labels.astype(np.int64), [str(name) for name in given.target_names]
        elif self.standardised:
            labels, caption = standardise(labels, labels[test]), caption_of_target(labels[test])
        parts = (features[train], labels[train], features[test], labels[test])
        return Samples(*parts, names, measured_on="test" if self.standardised else None, caption=caption)
