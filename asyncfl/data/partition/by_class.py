"""Check that a regression, which has no classes, uses no partition or concept that needs them."""

from __future__ import annotations

from collections.abc import Iterator

from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault
from asyncfl.data.concept import Concept
from asyncfl.data.partition.partition import Partition


def regression_faults(title: str, partition: Partition, concept: Concept | None) -> Iterator[Fault]:
    """Report a partition and a concept that need classes, for the regression `title`; field names are relative to
    `data`."""
    why = f"needs classes, but {title} is a regression"
    if partition.by_class:
        yield Fault("partition.kind", f"{kind_of(partition)} {why}; take iid, quantity or by (a column)")
    if concept is not None:
        yield Fault("concept", f"{kind_of(concept)} {why}; leave it null")
