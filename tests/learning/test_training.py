from __future__ import annotations

import pytest
from pydantic import ValidationError

from asyncfl.learning.training import Training


@pytest.mark.parametrize(
    ("batch", "samples", "steps"), [(20, 100, 25), (32, 100, 20), ("full", 100, 5), (32, 7, 5), (20, 0, 0)]
)
def test_steps_of_a_task(batch: int | str, samples: int, steps: int) -> None:
    assert Training(batch_size=batch, epochs=5).steps(samples) == steps


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lr", 0),
        ("lr", float("inf")),
        ("momentum", 1),
        ("momentum", -0.1),
        ("batch_size", 0),
        ("batch_size", "half"),
        ("epochs", 0),
        ("proximal_mu", -1),
        ("gradient_clip", 0),
        ("device", "tpu"),
        ("gemm", "mkl"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Training(**{field: value})
