"""The arrays of a user's own data set, and their validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault, shortened
from asyncfl.base.streams import Streams
from asyncfl.data.sample_source import Array, Ints, Split

TEST_SHARE = 0.2  # share of the samples that become the test set if a data set has none
MOST_UNSEEN = 100
UNSEEN_FACTOR = 10
"""Integer labels above `MOST_UNSEEN` are taken for identifiers if there are more than `UNSEEN_FACTOR` times as many
classes up to the largest as occur: a model would need an output for each of them."""
LEAST_SIDE = 8  # rows and columns from which on whole numbers count as a picture
_AT_ONCE = 2**24  # numbers that are checked at once


@dataclass(frozen=True, eq=False)
class Samples:
    """The arrays of a data set.

    Without a test set a random fifth of the samples is used for testing, the same fifth in every run.
    """

    features: Array
    """(n, ...) numbers of any shape, as the model receives them; or pictures: bytes (uint8) of shape (n, height, width)
    or (n, height, width, channels), which are scaled according to `data.scaling` and reach the model as (channels,
    height, width)."""
    labels: Array
    """(n,) classes: integers from 0, or text. Or numbers to predict, for a regression: (n,) or (n, outputs) floats."""
    test_features: Array | None = None
    """(m, ...) test samples of the same shape; None: a fifth of the others."""
    test_labels: Array | None = None
    """(m,) labels of the test samples."""
    classes: int | Sequence[str] | None = None
    """Number of classes, or their names in order; None: taken from the labels, or a regression."""
    columns: Mapping[str, Array] = field(default_factory=dict)
    """Name -> (n,) further values of each sample (writer, region, user), for partitions."""
    test_columns: Mapping[str, Array] = field(default_factory=dict)
    """Name -> (m,) further values of each test sample."""
    measured_on: Split | None = None
    """Split on which the scales and texts that prepared the features and labels were measured; None: none were. What is
    measured on the clients' samples reveals them."""
    caption: str = ""
    """Text to add to captions, such as the unit of the labels."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in order: the given names, the texts that occur, or numbers; () for a regression."""
        given = [part for part in (self.labels, self.test_labels) if part is not None]
        if self.labels.dtype.kind == "f":
            return ()
        if self.classes is not None and not isinstance(self.classes, int):
            return tuple(self.classes)
        if self.labels.dtype.kind in "UO":
            return tuple(sorted({str(one) for part in given for one in part.tolist()}))
        return tuple(map(str, range(self.classes or 1 + max(int(part.max()) for part in given))))


PART_NAMES = {
    name: name for name in ("features", "labels", "test_features", "test_labels", "columns", "test_columns", "classes")
}
"""Name of each part in messages, unless a file uses other names."""


def split_train_test(samples: int) -> tuple[Ints, Ints]:
    """Choose the indices of training and test samples among `samples` samples: the same in every run."""
    order = Streams(0).generator("test_split").permutation(samples)
    tested = max(1, round(samples * TEST_SHARE))
    return np.sort(order[tested:]), np.sort(order[:tested])


def standardise(numbers: Array, measured: Array) -> NDArray[np.float64]:
    """Scale numbers (n, ...) so that `measured` (m, ...) gets mean 0 and standard deviation 1; a constant keeps its
    scale."""
    deviation = measured.std(0)
    scaled: NDArray[np.float64] = (numbers - measured.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def caption_of_target(measured: Array) -> str:
    """Return the caption of a regression whose target is standardised by the numbers `measured` (m,)."""
    return f"target minus {measured.mean():.4g}, over {measured.std() or 1:.4g}"


def sample_faults(samples: Samples, part_names: Mapping[str, str] = PART_NAMES) -> Iterator[Fault]:
    """Report the faults of a data set's arrays; `part_names`: the name of each part in messages."""
    features, labels, tests, tested = samples.features, samples.labels, samples.test_features, samples.test_labels
    if (tests is None) != (tested is None):
        missing, there = ("labels", "features") if tested is None else ("features", "labels")
        yield Fault(part_names[f"test_{missing}"], f"must be given too where {part_names[f'test_{there}']} are")
        return
    found = list(_split_faults(samples, "", part_names))
    found += [] if tests is None else _split_faults(samples, "test_", part_names)
    if found:
        yield from found
        return
    if tested is not None and (labels.dtype.kind in "UO") != (tested.dtype.kind in "UO"):
        got = f"{tested.dtype} and {labels.dtype}"
        yield Fault(part_names["test_labels"], f"must be text or numbers as {part_names['labels']} are, got {got}")
    elif tested is not None and _outputs(tested) != _outputs(labels):
        allowed = f"must be of the type and shape of {part_names['labels']} ({_describe(labels)})"
        yield Fault(part_names["test_labels"], f"{allowed}, got {_describe(tested)}")
    elif labels.dtype.kind != "f" and (classes := len(samples.class_names)) < 2:
        yield Fault(part_names["labels"], f"must be of at least two classes, got {classes}")
    if tests is None:
        if len(labels) < 2:
            advice = "one to train on and one to test on"
            yield Fault(part_names["features"], f"must be at least two samples, {advice}, got 1")
    elif tests.shape[1:] != features.shape[1:] or (tests.dtype == np.uint8) != (features.dtype == np.uint8):
        allowed = f"must be of the shape and type of {part_names['features']} ({_describe(features)})"
        yield Fault(part_names["test_features"], f"{allowed}, got {_describe(tests)}")


def _split_faults(samples: Samples, prefix: str, part_names: Mapping[str, str]) -> Iterator[Fault]:
    """Report faults of the arrays of one split, alone."""
    features, labels, columns = (getattr(samples, f"{prefix}{part}") for part in ("features", "labels", "columns"))
    name = part_names[f"{prefix}labels"]
    wrong = [
        *_feature_faults(features, part_names[f"{prefix}features"]),
        *_label_faults(samples.classes, labels, name, part_names["classes"]),
    ]
    if not wrong and len(features) != len(labels):
        wrong = [Fault(name, f"must have one label per sample ({len(features)}), got {len(labels)}")]
    yield from wrong
    for column, values in {} if wrong else columns.items():
        if not isinstance(values, np.ndarray) or values.shape != (len(labels),):
            allowed = f"must be a NumPy array of shape ({len(labels)},)"
            yield Fault(f"{part_names[f'{prefix}columns']}.{column}", f"{allowed}, got {_shape(values)}")


def _outputs(labels: Array) -> int | None:
    """Return the numbers that a regression predicts per sample; None if the labels are classes."""
    if labels.dtype.kind != "f":
        return None
    return 1 if labels.ndim == 1 else int(labels.shape[1])


def _describe(array: Array) -> str:
    return f"{array.dtype} (n{''.join(f', {size}' for size in array.shape[1:])})"


def _shape(value: Any) -> str:
    return f"shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _feature_faults(features: Any, name: str) -> Iterator[Fault]:
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "buif":
        got = f"{features.dtype} {features.shape}" if isinstance(features, np.ndarray) else type(features).__name__
        yield Fault(name, f"must be a NumPy array of numbers (n, ...), got {got}")
    elif features.ndim < 2 or 0 in features.shape:
        one = "; of one number per sample make it (n, 1)" if features.ndim == 1 else ""
        allowed = "must be of shape (n, ...), with at least one sample and number each"
        yield Fault(name, f"{allowed}, got {features.shape}{one}")
    elif features.dtype.kind == "f":
        yield from _number_faults(features, name)
    elif features.dtype == np.uint8 and features.ndim == 4 and features.shape[3] not in (1, 2, 3, 4):
        if features.shape[1] in (1, 2, 3, 4):
            allowed = "must be pictures (n, height, width, channels): channels come last"
            yield Fault(name, f"{allowed}, got {features.shape}; move axis 1 to the end")
    elif features.dtype != np.uint8 and features.dtype.kind in "iu" and features.ndim in (3, 4):
        low, high = int(features.min()), int(features.max())
        if low < 0 or min(features.shape[1:3]) < LEAST_SIDE:
            return
        allowed = "must be bytes (uint8), as pictures are, which are scaled, or floats, which are taken as they are"
        yield Fault(name, f"{allowed}, got whole numbers {low}..{high} as {features.dtype}")


def _number_faults(numbers: Array, name: str) -> Iterator[Fault]:
    """Report numbers (n, ...) that are not finite in float32, block by block, so that a mapped file is never loaded as
    a whole."""
    rows = max(1, _AT_ONCE // int(np.prod(numbers.shape[1:])))
    bad = [
        start + np.flatnonzero(~_fits_float32(numbers[start : start + rows]).reshape(-1, numbers[0].size).all(1))
        for start in range(0, len(numbers), rows)
    ]
    if len(places := np.concatenate(bad)):
        values = numbers[places[0]].reshape(-1)
        first = values[~_fits_float32(values)][0]
        within = " within float32" if np.isfinite(first) else ""
        more = f" (and {len(places) - 1} more samples)" if len(places) > 1 else ""
        yield Fault(name, f"must be finite numbers{within}, got {first} in sample {places[0]}{more}")


def _fits_float32(values: Array) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = np.abs(values) <= np.finfo(np.float32).max  # false for NaN
    return fits


def _look_like_classes(labels: Array) -> bool:
    """Whether floats are 0, 1, 2, ... without a gap, up to at most `MOST_UNSEEN`."""
    different = np.unique(labels)
    return 2 <= len(different) <= MOST_UNSEEN and bool(np.array_equal(different, np.arange(len(different))))


def _label_faults(known: int | Sequence[str] | None, labels: Any, name: str, name_of_classes: str) -> Iterator[Fault]:
    """Report labels that are not of the `known` classes, or not finite, or identifiers."""
    numbers = isinstance(labels, np.ndarray) and labels.dtype.kind == "f"
    if not isinstance(labels, np.ndarray) or labels.ndim not in ((1, 2) if numbers else (1,)) or not labels.size:
        shape = "(n,) or (n, outputs), as floats are numbers to predict" if numbers else "(n,)"
        yield Fault(name, f"must be a NumPy array of shape {shape}, got {_shape(labels)}")
    elif numbers:
        if known is not None:
            yield Fault(name, f"must be whole numbers or text where classes are given, got {labels.dtype}")
        elif labels.ndim == 1 and _look_like_classes(labels):
            got = f"got the whole numbers 0..{labels.max():g} as {labels.dtype}"
            ways = "make them integers if they are classes, or of shape (n, 1) if they are to be predicted"
            yield Fault(name, f"must be integers or text (classes), or numbers to predict, {got}; {ways}")
        yield from _number_faults(labels, name)
    elif labels.dtype.kind in "UO":
        if isinstance(known, int):
            yield Fault(name, f"must be whole numbers 0..{known - 1} where classes is a number, got text")
        elif known is not None and (outside := sorted({str(one) for one in labels.tolist()} - set(known))):
            allowed = f"must be of the {len(known)} classes {shortened(', '.join(known))}"
            yield Fault(name, f"{allowed}, got {shortened(', '.join(outside))}")
    elif labels.dtype.kind not in "bui":
        allowed = "must be whole numbers (classes from 0), text, or floats (numbers to predict)"
        yield Fault(name, f"{allowed}, got {labels.dtype}")
    else:
        low, high = int(labels.min()), int(labels.max())
        most = None if known is None else (known if isinstance(known, int) else len(known)) - 1
        if low < 0 or (most is not None and high > most):
            allowed = "must be classes from 0 on" if most is None else f"must be classes 0..{most}"
            first = int(np.flatnonzero((labels < 0) | (labels > (high if most is None else most)))[0])
            yield Fault(name, f"{allowed}, got {low}..{high} (sample {first} is the first outside)")
        elif most is None and high >= MOST_UNSEEN and high + 1 > UNSEEN_FACTOR * (occurring := len(np.unique(labels))):
            got = f"got {occurring} different numbers up to {high}: these look like identifiers"
            advice = f"number them from 0, make them text, or give {name_of_classes} if there are so many"
            yield Fault(name, f"must be classes from 0 on, {got}; {advice}")
