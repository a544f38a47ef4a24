import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl import Scenario, ScenarioError, simulate
from asyncfl.base.component import own_sources
from asyncfl.base.errors import ComponentError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.learning.metrics import Metric

CODE = """
import numpy as np

def right(outputs, labels):
    return np.mean(outputs.argmax(1) == labels)

def among_the_first(outputs, labels, k):
    return float(np.mean([label in row.argsort()[-k:] for row, label in zip(outputs, labels)]))

def unknown(outputs, labels):
    return float("nan")

def failing(outputs, labels):
    return outputs[10**6]

def writing(outputs, labels):
    outputs[0] = 0

def given(outputs, labels, back):
    return back

number = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The user's file, where it is looked for."""
    folder = Path(tmp_path_factory.getbasetemp()) / "own_metrics"
    folder.mkdir(exist_ok=True)
    (folder / "metrics_of_ones_own.py").write_text(CODE)
    look_for_modules_in(folder)


def test_metrics_of_ones_own_are_columns_of_the_rounds(scenario: Scenario) -> None:
    asked = scenario.override(
        {
            "evaluation.metrics": {
                "right": "metrics_of_ones_own:right",
                "top": {"kind": "metrics_of_ones_own:among_the_first", "k": 3},
                "nothing": "metrics_of_ones_own:unknown",
            },
            "evaluation.test_every": 2,
        }
    )
    assert own_sources(asked).keys() == {"metrics_of_ones_own"}
    assert Scenario.read(asked.resolved()) == asked.settled()
    rounds = simulate(asked).rounds
    assert rounds["metric_right"].tolist() == pytest.approx(rounds["test_accuracy"].tolist(), nan_ok=True)
    assert math.isnan(rounds["metric_top"][1])
    assert (rounds["metric_top"] >= rounds["metric_right"])[[0, 2, 3]].all()
    assert rounds["metric_nothing"].isna().all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("failing", "the metric metrics_of_ones_own:failing fails: .*metrics_of_ones_own.py, line .*IndexError"),
        ("writing", "fails: .*read-only"),
        ("among_the_first", "fails: .*missing 1 required positional argument: 'k'"),
    ],
)
def test_a_metric_that_fails_ends_the_run_with_its_name(name: str, message: str) -> None:
    outputs, labels = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
    with pytest.raises(ComponentError, match=message):
        Metric(kind=f"metrics_of_ones_own:{name}").value(outputs, labels)
    assert outputs.flags.writeable


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"a": "metrics_of_ones_own:number"}, "must name a function of outputs and labels, got int"),
        ({"a": "metrics_of_ones_own:missing"}, "has no 'missing'"),
        ({"a": "right"}, "kind must be the import path of a class"),
        ({"A b": "metrics_of_ones_own:right"}, "evaluation.metrics.A b"),
    ],
)
def test_metrics_that_are_none_are_refused(tiny: dict[str, Any], metrics: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.read({**tiny, "evaluation": {"metrics": metrics}})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("back", "value"),
    [
        (2, 2.0), (np.float32(0.25), 0.25), (np.array(1.5), 1.5), (True, "bool"), (np.array([1.5]), "ndarray"),
        ((1.0, 2.0), "tuple"),
    ],
)  # fmt: skip
def test_metrics_must_return_numbers(back: Any, value: float | str) -> None:
    metric = Metric.model_validate({"kind": "metrics_of_ones_own:given", "back": back})
    outputs, labels = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
    if isinstance(value, str):
        with pytest.raises(ComponentError, match=f"must return a number, got {value}"):
            metric.value(outputs, labels)
    else:
        found = metric.value(outputs, labels)
        assert (type(found), found) == (float, value)
