"""What federations are made of (sizes, labels, images, provenance), against a written list.

`python tests/data/test_built.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.data import DataSpec
from asyncfl.errors import InputError
from asyncfl.streams import Streams

LIST = Path(__file__).with_name("built.json")
BASE: dict[str, Any] = {
    "dataset": "mnist",
    "clients": 6,
    "samples_per_client": 20,
    "source": "embedded",
    "test_samples": 30,
}
DOMAINS = ["mnist", "usps", "svhn"]
SPECS: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({}, 25),
    ({"dataset": "synth_digits"}, 0),
    ({"scaling": "unit"}, 0),
    ({"domains": DOMAINS}, 7),
    ({"domains": DOMAINS, "partition": {"kind": "dirichlet", "alpha": 0.5}}, 0),
    ({"domains": DOMAINS, "test_samples": None, "test_share": 0.2}, 4),
    ({"test_samples": None, "test_share": 0.25}, 0),
    ({"train_on": "test"}, 5),
    ({"concept": {"kind": "relabelled", "groups": 3, "classes": 5}}, 3),
    ({"concept": {"kind": "restyled", "groups": 2, "change": "inverted"}}, 0),
    ({"concept": {"kind": "restyled", "groups": 4}, "domains": ["mnist", "usps"]}, 0),
    ({"partition": {"kind": "shards"}}, 0),
    ({"partition": {"kind": "quantity", "min_samples": 3}}, 0),
    ({"partition": {"kind": "dirichlet", "alpha": 0.2, "share_sizes": "free", "min_samples": 2}}, 0),
    ({"dataset": "fashion_mnist", "clients": 3, "samples_per_client": 7}, 1),
]


def _name(spec: dict[str, Any], root: int) -> str:
    return f"{json.dumps(spec)}, root {root}"


def _built(spec: dict[str, Any], root: int) -> list[Any]:
    try:
        data = DataSpec.model_validate({**BASE, **spec})
        built = data.build(Streams(3), root)
    except InputError as error:
        return [str(fault) for fault in error.faults]
    parts = [built.client(client) for client in range(data.clients)]
    images = [[float(part[0].mean(dtype=np.float64)), float(part[0].std(dtype=np.float64))] for part in parts]
    labels = [np.bincount(part[1], minlength=10).tolist() for part in parts]
    tests = [list(built.test_images.shape), np.bincount(built.test_labels).tolist(), float(built.test_images.mean())]
    server = (
        None if built.root is None else [list(built.root[0].shape), built.root[1].tolist(), float(built.root[0].mean())]
    )
    about = [data.classes, list(data.shape), built.provenance, built.original, list(data.names)]
    return [built.sizes.tolist(), labels, _rounded(images), _rounded(tests), _rounded(server), about]


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 3) if isinstance(value, float) else value


def _near(value: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_near, value, expected))
    if isinstance(expected, float):
        return bool(value == pytest.approx(expected, abs=0.02))  # fonts are drawn a little differently
    return bool(value == expected)


@pytest.mark.parametrize(("spec", "root"), SPECS, ids=[_name(*one) for one in SPECS])
def test_federations_are_what_is_written_down(spec: dict[str, Any], root: int) -> None:
    found, written = _built(spec, root), json.loads(LIST.read_text(encoding="utf-8"))[_name(spec, root)]
    assert _near(json.loads(json.dumps(found)), written), f"{found}, not {written}"


if __name__ == "__main__":
    lines = [f"{json.dumps(_name(*one))}: {json.dumps(_built(*one), ensure_ascii=False)}" for one in SPECS]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
