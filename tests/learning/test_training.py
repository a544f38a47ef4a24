import pytest
from pydantic import ValidationError

from asyncfl.learning.training import Training


@pytest.mark.parametrize(
    ("batch", "samples", "steps"), [(20, 100, 25), (32, 100, 20), ("full", 100, 5), (32, 7, 5), (20, 0, 0)]
)
def test_steps_of_a_task_of_five_epochs(batch: int | str, samples: int, steps: int) -> None:
    assert Training(batch_size=batch, epochs=5).steps(samples) == steps


@pytest.mark.parametrize(
    ("field", "value"),
    [("lr", 0), ("momentum", 1), ("batch_size", "half"), ("epochs", 0), ("proximal_mu", -1), ("gradient_clip", 0),
     ("example_clip", float("nan")), ("example_noise", -0.1), ("device", "tpu"), ("gemm", "mkl")],
)  # fmt: skip
def test_values_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Training(**{field: value})


def test_clips_that_exclude_each_other_and_noise_without_a_clip_are_refused() -> None:
    with pytest.raises(ValidationError, match="gradient_clip and example_clip exclude each other"):
        Training(gradient_clip=1, example_clip=1)
    with pytest.raises(ValidationError, match=r"example_noise is in units of example_clip, which must be set for 0\.5"):
        Training(example_noise=0.5)
    assert Training(example_clip=2, example_noise=0.5).example_noise == 0.5
