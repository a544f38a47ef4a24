import math
from typing import Any

import numpy as np
import pytest

from asyncfl.evaluation import Evaluation
from asyncfl.federation.kept_models import KeptModels

NAN = math.nan


def offered(keep: Any, rows: list[tuple[float, float, bool]], rounds: int = 9) -> list[int]:
    kept = KeptModels(Evaluation(keep=keep), rounds)
    for version, (accuracy, loss, diverged) in enumerate(rows):
        model = np.full(3, version, np.float32)
        kept.offer(version, model, {"test_accuracy": accuracy, "test_loss": loss, "diverged": diverged})
        model[:] = -1
    assert all(model.tolist() == [version] * 3 for version, model in kept.models.items())
    return list(kept.models)


@pytest.mark.parametrize(
    ("keep", "rows", "versions"),
    [
        ("none", [(0.5, 1.0, False)], []),
        ("last", [(0.5, 1.0, False), (0.1, 9.0, False), (NAN, NAN, True)], [1]),
        ("best", [(0.5, 1.0, False), (0.7, 2.0, False), (0.6, 0.1, False)], [1]),
        ("best", [(0.5, 2.0, False), (0.5, 1.0, False), (0.5, 1.0, False)], [1]),
        ("best", [(0.5, 2.0, False), (NAN, NAN, False), (0.9, 1.0, True)], [0]),
        ("best", [(NAN, 2.0, False), (NAN, 1.0, False), (NAN, 3.0, False)], [1]),
        ({"every": 3}, [(0.5, 1.0, False)] * 9, [0, 3, 6]),
        ({"every": 3}, [(0.5, 1.0, False)] * 8 + [(NAN, NAN, False)], [0, 3, 6]),
    ],
)
def test_kept_models_follow_evaluation_keep(
    keep: Any, rows: list[tuple[float, float, bool]], versions: list[int]
) -> None:
    assert offered(keep, rows) == versions


def test_the_last_version_is_kept_whatever_its_number() -> None:
    assert offered({"every": 3}, [(0.5, 1.0, False)] * 6, rounds=5) == [0, 3, 5]
