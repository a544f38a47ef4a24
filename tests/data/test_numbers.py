"""Who gets which samples, and what becomes of them on the way to a model, against a written list.

`python tests/data/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.data import DataSpec, Samples
from asyncfl.data.canaries import Canaries, plant
from asyncfl.data.concept import Relabelled, Restyled
from asyncfl.data.holdings import Holdings, holdings_of, in_parts
from asyncfl.data.limits import SampleRequest, overdrawn, root_overdrawn, root_shortages, shortages
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.samples import sample_faults, split_off, standardised
from asyncfl.data.partition import (
    ByColumn,
    Dirichlet,
    Iid,
    InnerDirichlet,
    Partition,
    Pathological,
    Quantity,
    Shards,
)  # fmt: skip
from asyncfl.data.pixels import to_common_shape, to_float
from asyncfl.errors import InputError
from asyncfl.streams import Streams
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
PARTITIONS: list[Partition] = [
    Iid(), Shards(), Shards(shards_per_client=3), Quantity(min_samples=2), Quantity(min_samples=6, spread=0.3),
    Quantity(distribution="power", spread=1.5, min_samples=1), Quantity(spread=0, min_samples=6),
    Dirichlet(alpha=0.3), Dirichlet(alpha=1e-4), Dirichlet(alpha=1.0, share_sizes="free", min_samples=2),
    Dirichlet(alpha=0.7, share_sizes="free", min_samples=6),
    Pathological(), Pathological(classes_per_client=3), Pathological(classes_per_client=4),
    Pathological(classes_per_client=5), InnerDirichlet(alpha=0.3, min_samples=1),
    InnerDirichlet(alpha=50.0, min_samples=2, distribution="power"),
    ByColumn(column="label"), ByColumn(column="writer", min_samples=6), ByColumn(column="writer", joined=True),
    ByColumn(column="writer", min_samples=12), ByColumn(column="writer", min_samples=13),
]  # fmt: skip
LABELS = np.array([0] * 12 + [1] * 12 + [2] * 12 + [3] * 6)
IMAGES = np.random.default_rng(4).integers(0, 256, (42, 5, 7, 3), dtype=np.uint8)
ROWS = np.linspace(-2, 5, 42 * 3).reshape(42, 3).astype(np.float32)
NUMBERS = np.sin(np.arange(42, dtype=np.float32))
TEXTS = np.array(list("abcdef") * 7)
OWN: dict[str, Samples] = {
    "pictures": Samples(IMAGES, LABELS, columns={"writer": TEXTS}),
    "grey pictures with a test set": Samples(IMAGES[..., 0], LABELS, IMAGES[:4, ..., 1], LABELS[:4], 6),
    "rows of texts": Samples(ROWS, TEXTS, said="in words"),
    "rows of named texts": Samples(ROWS, TEXTS, ROWS[:3], TEXTS[:3], list("fedcba")),
    "regression": Samples(ROWS, NUMBERS),
    "two numbers": Samples(ROWS, np.stack([NUMBERS, -NUMBERS], 1), ROWS[:2], np.zeros((2, 2), np.float32)),
    "truth values": Samples(ROWS[:9], LABELS[:9] < 1, ROWS[:5], LABELS[:5] < 2),
    "constant pictures": Samples(np.full((5, 2, 2), 9, np.uint8), np.arange(5) % 2),
}
REQUESTS: dict[str, dict[str, Any]] = {
    "fits exactly": {"clients": 4, "samples": 8, "tested": 8, "root": 2},
    "trains on too much": {"clients": 4, "samples": 9, "tested": 8},
    "tests on too much": {"clients": 4, "samples": 8, "tested": 9},
    "tests on too much by share": {"clients": 4, "samples": 8, "tested": 9, "by_share": True},
    "keeps too much": {"clients": 4, "samples": 8, "tested": 7, "root": 4},
    "two domains": {"clients": 8, "domains": 2, "samples": 9, "tested": 9, "root": 3, "by_share": True},
    "on the test split": {"clients": 4, "samples": 3, "tested": 34, "train_on": "test", "root": 1},
    "draws as many as there may be": {"clients": 1, "samples": 500_000, "tested": 500_000},
    "draws more": {"clients": 1, "samples": 500_001, "tested": 500_001},
    "draws more in domains": {"clients": 2, "domains": 2, "samples": 250_001, "tested": 250_001, "by_share": True},
    "draws for more clients": {"clients": 500_001, "samples": 1, "tested": None},
}


def _shares(part: Partition) -> Any:
    column = LABELS if part.sorts_by == "label" else TEXTS[np.arange(42) * np.arange(42) % 42]
    random = [np.random.default_rng(5) for _ in range(2)]
    sizes = part.sizes(4, 6, random[0])
    try:
        shares = part.assign(column, 4, 6, random[1])
    except InputError as error:
        return [str(one) for one in error.faults]
    told = [part.sorts_by, part.by_class, part.natural_sizes, part.spare, [str(one) for one in part.faults(4, 6)]]
    return [told, [one.tolist() for one in shares], sizes, random[1].integers(1000)]


def _own(samples: Samples) -> Any:
    if faults := [str(one) for one in sample_faults(samples)]:
        return faults
    source = ArraySource("mine", "Mine", samples)
    told: list[Any] = [source.provenance, source.shape, source.classes, source.outputs, source.class_names]
    told += [source.columns, source.pictures, source.on_disk, source.regression, int(source.digest, 16) % 10**9]
    if source.pictures:
        told += [source.scale]
    for split in ("train", "test"):
        some = np.arange(source.size(split))[::-1]
        told += [source.nominal(split), source.labels(split, some)]
        told += [source.scaled(source.images(split, some), one) for one in (False, True)]
        told += [source.column(name, split, some).tolist() for name in (*source.columns, "label")[:1]]
        told += [source.unused(3, np.arange(2), np.random.default_rng(1), split)]
        told += [source.pool(1, np.random.default_rng(2), split)[:5]]
        told += [source.test_set(one, np.random.default_rng(3), split)[1:] for one in (2, None)]
    return told


def _planted(fields: dict[str, Any], regression: bool) -> Any:
    images = (ROWS[:20, :, None, None] * np.ones((1, 1, 2, 2))).astype(np.float32)
    labels = NUMBERS[:20, None] if regression else LABELS[:20]
    canaries = Canaries(**fields)
    told: list[Any] = [canaries.said, [str(one) for one in canaries.faults(4, 20)]]
    for seed in (0, 1) if not told[1] else ():
        offsets = np.array([0, 3, 4, 12, 20])
        made = plant(canaries, images, labels, offsets, 0 if regression else 4, Streams(seed))
        told += [made[0], made[1], made[2], sorted(made[2].zeroed)]
    return told


def _built(fields: dict[str, Any]) -> Any:
    spec = DataSpec.model_validate({"clients": 4, "source": "embedded", "dataset": "mnist", **fields})
    data = spec.build(Streams(2), 2)
    random = np.random.default_rng(3)
    wrong = [np.asarray(data.wrong_label(data.labels[one], random)).tolist() for one in range(3)]
    told: list[Any] = [data.sizes, data.labels, data.test_labels, data.clients, data.shape]
    told += [data.feature_range() if data.source == "real" else None]  # fonts are drawn a little differently
    told += [data.outputs, np.asarray(data.extreme_labels).tolist(), wrong, spec.client_sizes(Streams(2))]
    told += [data.samples(1), data.client(1)[1], data.test_of(0)[1], data.root and data.root[1], data.provenance]
    held = holdings_of(spec, Streams(2))
    return [*told, held, held.said, held.sizes, held.classes_held, held.skew, held.largest_classes(0, 2)]


def _looked_at(images: Any) -> Any:
    """Shape, and means of patches above 1000: one that is rounded otherwise somewhere is the same."""
    return [list(images.shape), (1000 + images.reshape(2, 4, 7, 4, 7, 3).mean((2, 4))).tolist()]


class _Files:
    """A data set of 36 samples to train on and of 8 to test on."""

    title = "Some"

    def size(self, split: str) -> int:
        return 36 if split == "train" else 8


def _asked(fields: dict[str, Any]) -> Any:
    asked = SampleRequest(**{"domains": 1, "by_share": False, **fields})
    sources: Any = [_Files()] * asked.domains
    faults = [*shortages(asked, sources), *root_shortages(asked, sources)]
    drawn = [*overdrawn(asked, 1), *overdrawn(asked, asked.clients), *root_overdrawn(asked.samples)]
    return [asked.roots, asked.clients_per_domain, asked.of_each, asked.left(sources[0]), [str(one) for one in faults],
            [str(one) for one in drawn]]  # fmt: skip


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for part in PARTITIONS:
        yield f"shares by {part!r}", partial(_shares, part)
    for name, samples in OWN.items():
        yield f"own {name}", partial(_own, samples)
    for fields in ({"count": 9}, {"count": 1}, {"count": 20, "kind": "noise"}, {"count": 2, "unit": "client"},
                   {"count": 5, "unit": "client", "kind": "noise"}, {"count": 21},
                   {"count": 5, "unit": "client"}, {"count": 4, "unit": "client"}):  # fmt: skip
        for regression in (False, True):
            called = f"canaries {fields}{' of a regression' if regression else ''}"
            yield called, partial(_planted, fields, regression)
    for groups in (2, 3, 4):
        owners = np.arange(42) // 5
        yield f"{groups} groups", lambda groups=groups, owners=owners: [
            Relabelled(groups=groups, classes=3).labels(LABELS, owners, 4, Streams(1)),
            Restyled(groups=groups).images(IMAGES[:, :5, :5], owners),
            Restyled(groups=groups, change="inverted").images(IMAGES, owners),
            [str(one) for one in Relabelled(groups=groups, classes=5).faults(groups - 1, 4)],
            [str(one) for one in Restyled(groups=groups, change="inverted").faults(groups, 4)],
            [one.said for one in (Relabelled(groups=groups), Restyled(groups=groups))],
        ]  # fmt: skip
    for side in (16, 27, 28, 29, 40):
        pixels = np.random.default_rng(side).integers(0, 256, (2, side, side), dtype=np.uint8)
        yield f"{side} pixels in the common shape", lambda pixels=pixels: _looked_at(to_common_shape(pixels))
        colours = np.stack([pixels, 255 - pixels, pixels // 2], -1)
        yield (
            f"{side} coloured pixels",
            lambda colours=colours: [*_looked_at(to_common_shape(colours)), to_float(colours, None)],
        )
    for fields in (
        {"samples_per_client": 10, "test_samples": 7},
        {"samples_per_client": 10, "test_share": 0.2, "partition": {"kind": "dirichlet", "alpha": 0.2}},
        {"dataset": "diabetes", "source": "real", "samples_per_client": 10},
        {"dataset": "diabetes", "source": "real", "samples_per_client": None, "canaries": {"count": 3}},
        {"dataset": "iris", "source": "real", "concept": {"kind": "relabelled", "classes": 3}, "samples_per_client": 9},
        {"dataset": "digits", "source": "real", "samples_per_client": 9, "concept": {"kind": "restyled"}},
        {"domains": ["mnist", "usps"], "samples_per_client": 6, "test_samples": 5},
        {"samples_per_client": 10, "train_on": "test", "test_samples": 4, "scaling": "unit"},
    ):  # fmt: skip
        yield f"built {fields}", partial(_built, fields)
    for name, fields in REQUESTS.items():
        yield f"asks for what {name}", partial(_asked, fields)
    yield "parts", lambda: [*in_parts(NUMBERS), standardised(NUMBERS, np.arange(9)), split_off(9), split_off(1)]
    yield (
        "holdings",
        lambda: [
            (one.said, [one.largest_classes(client) for client in range(3)], one.skew)
            for counts in ([[5, 0, 0, 0, 0], [0, 3, 2, 1, 1], [0, 0, 0, 0, 9]], [[2, 2, 2, 2, 2]] * 3)
            for one in [Holdings(np.array(counts), tuple("abcde"), "label", (), (), "")]
        ],
    )


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
