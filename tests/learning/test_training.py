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
        ("example_clip", 0),
        ("example_clip", -1),
        ("example_clip", float("inf")),
        ("example_clip", float("nan")),
        ("example_noise", -0.1),
        ("example_noise", float("inf")),
        ("device", "tpu"),
        ("gemm", "mkl"),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Training(**{field: value})


def test_clips_of_batches_and_of_examples_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="gradient_clip and example_clip exclude each other"):
        Training(gradient_clip=1, example_clip=1)


def test_noise_is_in_units_of_a_clip_that_must_be_there() -> None:
    with pytest.raises(ValidationError, match=r"example_noise is in units of example_clip, which must be set for 0\.5"):
        Training(example_noise=0.5)
    assert Training(example_clip=2, example_noise=0.5).example_noise == 0.5


def test_fields_of_dp_sgd_are_read_as_they_were_written() -> None:
    private = Training(example_clip=1, example_noise=2)
    assert private.model_dump() == {**Training().model_dump(), "example_clip": 1, "example_noise": 2}
    assert Training.model_validate(private.model_dump()) == private
