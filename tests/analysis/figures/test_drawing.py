from __future__ import annotations

import numpy as np
import pandas as pd

from asyncfl.analysis.figures.drawing import spread
from asyncfl.analysis.statistics import OF_TWO


def test_around_means_is_an_interval_or_the_two_values_or_nothing_where_two_are_left() -> None:
    rows = pd.DataFrame(
        {"mean": [1.0, 1.0, 1.0], "low": [0.5, 1 - OF_TWO, 0.0], "high": [1.5, 1 + OF_TWO, 2.0]}
        | {"seeds": [3, 2, 2], "diverged": [0, 0, 1]}
    )
    low, high, own = spread(rows)
    np.testing.assert_allclose(low, [0.5, 0.0, np.nan])
    np.testing.assert_allclose(high, [1.5, 2.0, np.nan])
    assert own.tolist() == [False, True, False]
