import pandas as pd
import pytest

from asyncfl.analysis.table import Table


@pytest.mark.parametrize(
    ("mean", "low", "high", "cell"),
    [
        (0.7, 0.7 - 3e-16, 0.7 + 3e-16, "0.7 ± 0"),  # equal values of all seeds, summed up in floating point
        (0.7, 0.69, 0.71, "0.7 ± 0.01"),
        (0.7, float("nan"), float("nan"), "0.7"),
        (0.0, -0.1, 0.1, "0 ± 0.1"),
    ],
)
def test_a_cell_is_a_mean_and_half_its_interval(mean, low, high, cell):
    final = pd.DataFrame([{"a": 1, "metric": "x", "mean": mean, "low": low, "high": high, "diverged": 0}])
    assert Table(rows="a", value="x").markdown({"a": (1,)}, final).splitlines()[2] == f"| 1 | {cell} |"
