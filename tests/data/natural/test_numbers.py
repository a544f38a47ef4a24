"""What stands in for data sets that are not there, against a written list: whoever has none gets the same ones.

`python tests/data/natural/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from asyncfl.data import DataSpec
from asyncfl.data.natural import NATURAL
from asyncfl.data.natural.people import _people
from asyncfl.streams import Streams
from tests.written import compare, sums, write

LIST = Path(__file__).with_name("numbers.json")


def _built(name: str) -> Any:
    partition = {"kind": "by", "column": NATURAL[name].columns[0]}
    data = DataSpec(dataset=name, clients=5, samples_per_client=None, partition=partition, source="embedded").build(
        Streams(0)
    )
    return [data.images, data.labels, data.test_images, data.test_labels, data.sizes, data.provenance]


CALLS: dict[str, Callable[[], Any]] = {
    **{name: partial(_built, name) for name in NATURAL},
    "people": lambda: sums(pa.Table.from_pandas(_people(5000, np.random.default_rng(1)))),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-9 if name == "people" else 1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
