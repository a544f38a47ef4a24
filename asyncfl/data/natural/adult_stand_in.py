"""Stand-in for Adult: random people with correlated education, occupation and family, in the proportions of a census.

The proportions of the more frequent values are those of the original, rounded; correlations and incomes follow formulas
of our own.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.streams import Streams
from asyncfl.data.natural.adult import INCOMES, LEVELS, VALUES, encode_people
from asyncfl.data.own.npz import columns_of
from asyncfl.data.own.samples import Samples

if TYPE_CHECKING:
    import pandas as pd

PEOPLE = {"train": 16_000, "test": 8_000}
_SCHOOLING = (2, 5, 10, 20, 16, 29, 36, 13, 323, 224, 42, 33, 164, 53, 18, 13)
"""Frequency of each level of education, in thousandths."""
_SHARES: dict[str, dict[str, int]] = {
    "workclass": {"Private": 697, "Self-emp-not-inc": 78, "Local-gov": 64, "State-gov": 40, "Self-emp-inc": 34}
    | {"Federal-gov": 29},
    "race": {"White": 854, "Black": 96, "Asian-Pac-Islander": 32, "Amer-Indian-Eskimo": 10, "Other": 8},
    "native-country": {"United-States": 896, "Mexico": 20, "?": 18, "Philippines": 6},
}
"""Frequencies of the more frequent values, in thousandths; the others share the rest evenly."""
_WORK = {
    "Prof-specialty": (127, 13),
    "Craft-repair": (126, 9),
    "Exec-managerial": (125, 11.5),
    "Sales": (112, 10),
    "Adm-clerical": (116, 10),
    "Other-service": (101, 9),
    "Machine-op-inspct": (61, 8.5),
    "?": (57, 9),
    "Transport-moving": (49, 9),
    "Handlers-cleaners": (42, 8.5),
    "Farming-fishing": (31, 8.5),
    "Tech-support": (29, 11),
    "Protective-serv": (20, 10),
    "Priv-house-serv": (5, 7),
    "Armed-Forces": (1, 10),
}
"""Occupation -> its frequency in thousandths, and its usual education (`education-num`)."""


def draw_adult() -> Samples:
    """Draw 24,000 people (n, 108) with incomes and columns, in a split of their own; the same on every call."""
    streams, place = Streams(0), zlib.crc32(b"adult") >> 1
    train, test = (
        _people(count, streams.generator("stand_ins", place, number)) for number, count in enumerate(PEOPLE.values())
    )
    arrays = encode_people(train, test)
    return Samples(
        arrays["x_train"],
        arrays["y_train"],
        arrays["x_test"],
        arrays["y_test"],
        INCOMES,
        columns_of(arrays, "train"),
        columns_of(arrays, "test"),
    )


def _people(count: int, random: np.random.Generator) -> pd.DataFrame:
    import pandas as pd

    age = np.clip(17 + random.gamma(2.5, 8.6, count), 17, 90).astype(int)
    school = random.choice(16, count, p=np.array(_SCHOOLING) / sum(_SCHOOLING))
    school = np.where(age < 22, np.minimum(school, 9), school) + 1
    man = random.random(count) < 0.67
    married = random.random(count) < np.clip((age - 18) / 30, 0.02, 0.62)
    alone = np.where(random.random(count) < np.clip((age - 25) / 40, 0, 0.8), "Divorced", "Never-married")
    alone = np.where(random.random(count) < 0.12, random.choice(VALUES["marital-status"][3:], count), alone)
    single = np.where(random.random(count) < 0.6, "Not-in-family", "Unmarried")
    single = np.where(random.random(count) < 0.06, "Other-relative", single)
    single = np.where((age < 25) & (random.random(count) < 0.7), "Own-child", single)
    work = _occupations(school, random)
    employer = np.where(work == "?", "?", _draw_column("workclass", count, random))
    hours = np.clip(np.where(random.random(count) < 0.47, 40, random.normal(40 + 3 * man, 15)), 1, 99).astype(int)
    gain = np.where(random.random(count) < 0.08, random.lognormal(8.5, 0.9, count), 0).clip(0, 99_999)
    loss = np.where(random.random(count) < 0.05, random.normal(1870, 380, count), 0).clip(0, 4356)
    usual = np.array([_WORK[one][1] for one in work.tolist()])
    odds = 0.33 * (school - 10) + 0.2 * (usual - 10) + 2.4 * married + 0.03 * (hours - 40) + 0.0004 * (gain + loss)
    odds += 0.025 * (np.minimum(age, 55) - 38) - 3.0
    rich = random.random(count) < 1 / (1 + np.exp(-odds))
    return pd.DataFrame(
        {
            "age": age,
            "workclass": employer,
            "fnlwgt": np.clip(random.lognormal(12.05, 0.5, count), 12_285, 1_484_705).astype(int),
            "education": np.array(LEVELS)[school - 1],
            "education-num": school,
            "marital-status": np.where(married, "Married-civ-spouse", alone),
            "occupation": work,
            "relationship": np.where(married, np.where(man, "Husband", "Wife"), single),
            "race": _draw_column("race", count, random),
            "sex": np.where(man, "Male", "Female"),
            "capital-gain": gain.astype(int),
            "capital-loss": loss.astype(int),
            "hours-per-week": hours,
            "native-country": _draw_column("native-country", count, random),
            "income": np.where(rich, INCOMES[1], INCOMES[0]),
        }
    )


def _draw_column(column: str, count: int, random: np.random.Generator) -> NDArray[Any]:
    """Draw (count,) values of a column with its frequencies."""
    shares: Mapping[str, int] = _SHARES[column]
    values = [value for value in VALUES[column] if value != "?" or value in shares]
    others = (1000 - sum(shares.values())) / max(1, len(values) - len(shares))
    weights = np.array([shares.get(value, others) for value in values])
    return random.choice(np.array(values), count, p=weights / weights.sum())


def _occupations(school: NDArray[np.int64], random: np.random.Generator) -> NDArray[Any]:
    """Draw an occupation (n,) for each education; occupations near their usual education are more likely."""
    share, usual = np.array(list(_WORK.values())).T
    weights = share * np.exp(-(((school[:, None] - usual) / 2.5) ** 2) / 2)
    edges = np.cumsum(weights, axis=1)
    chosen = (random.random(len(school))[:, None] * edges[:, -1:] > edges).sum(1)
    found: NDArray[Any] = np.array(list(_WORK))[chosen]
    return found
