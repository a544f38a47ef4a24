"""How far a twin has gone, and what is put in the ledger of answers without noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from asyncfl.twins.audit import so_far


def test_distances_add_up_in_units_of_the_noise_where_there_is_any() -> None:
    def task(std: float, *distances: float, number: int = 1) -> Any:
        twins = {number: SimpleNamespace(distances=distances)}
        return SimpleNamespace(twins=twins, release=SimpleNamespace(std=std))

    client: Any = SimpleNamespace(tasks={0: task(2.0, 3.0, 4.0), 1: task(0.0, 5.0), 2: task(1.0, 7.0, number=2)})
    first, second, third = (SimpleNamespace(number=number) for number in (1, 2, 3))
    assert so_far(client, first) == pytest.approx(25 / 4 + 25)  # type: ignore[arg-type]
    assert so_far(client, second) == pytest.approx(49)  # type: ignore[arg-type]
    assert so_far(client, third) == 0.0  # type: ignore[arg-type]
