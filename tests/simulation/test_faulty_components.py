"""Components of a user's own that raise an exception or return invalid values: the message names them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import ComponentError
from asyncfl.defences import Buffer, Detector, Rule, ScoreRequest, Verdict, accept_all
from asyncfl.privacy import PrivacyContext, Scheme
from asyncfl.protocol.staleness import Staleness
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.threats import Attack, AttackView

BUFFERED = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}


class ShortCraft(Attack):
    kind: str = "short_craft"

    def craft(self, view: AttackView) -> Vector:
        return view.honest[:, 1:]


class ShortRule(Rule):
    kind: str = "short_rule"

    def aggregate(self, updates: Vector, weights: Any) -> Vector:
        return updates[0, 1:]


class NumberScheme(Scheme):
    kind: str = "number_scheme"

    def start(self, context: PrivacyContext) -> Any:
        return 3


class OneWeight(Rule):
    kind: str = "one_weight"

    def aggregate(self, updates: Vector, weights: Any) -> Vector:
        return updates[0]

    def weigh(self, updates: Vector, weights: Any) -> Any:
        return weights[:1]


class Judging(Detector):
    """Returns a verdict that is wrong in the named field."""

    kind: str = "judging"
    wrong: str = ""

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> Any:
        n, right = len(buffer), accept_all(buffer)
        fields: dict[str, Any] = {"flagged": right.flagged, "strikes": right.strikes}
        values = {
            "flagged": np.zeros(n + 1, dtype=bool),
            "strikes": np.zeros(n, dtype=int),
            "weights": np.full(n, -1.0),
            "correction": np.zeros(3, dtype=np.float32),
            "details": ("only one",),
            "late_strikes": (99,),
            "unjudged": [False] * n,
        }
        if self.wrong == "state":
            return Verdict(**fields)
        return Verdict(**fields | {self.wrong: values[self.wrong]}), state


class Asking(Detector):
    kind: str = "asking"

    def request(self, state: Any, buffer: Buffer, tried: tuple[int, ...]) -> Any:
        return ScoreRequest(0, buffer.models[:, :5]), state

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> Any:
        raise AssertionError("its request was refused")


class Rising(Staleness):
    kind: str = "rising"
    fresh: float = -0.5

    def weight(self, staleness: Any) -> Any:
        return np.where(staleness == 0, self.fresh, 1.0)


class Undefined(Staleness):
    kind: str = "undefined"

    def weight(self, staleness: Any) -> Any:
        return np.full(np.shape(staleness), np.nan)


def own(cls: type, **fields: Any) -> dict[str, Any]:
    return {"kind": f"{__name__}:{cls.__name__}", **fields}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"threats": {"attack": own(ShortCraft), "attackers": 5}},
            r"ShortCraft: craft must be \(2, \d+\) numbers, got",
        ),
        ({"defence.rule": own(ShortRule)}, r"ShortRule: aggregate must be \(\d+,\) numbers, got \(\d+,\) float32"),
        ({"defence.rule": own(OneWeight)}, r"OneWeight: weigh must be \(2,\) numbers, got "),
        ({"privacy": own(NumberScheme)}, r"NumberScheme: start must return a State, got int 3"),
        ({"defence.detector": own(Judging, wrong="flagged")}, r"judge: flagged must be \(2,\) bool, got \(3,\) bool"),
        ({"defence.detector": own(Judging, wrong="strikes")}, r"judge: strikes must be \(2,\) bool, got \(2,\) int64"),
        ({"defence.detector": own(Judging, wrong="weights")}, r"judge: weights must be >= 0, got -1.0"),
        (
            {"defence.detector": own(Judging, wrong="correction")},
            r"judge: correction must be \(\d+,\) numbers, got \(3,",
        ),
        ({"defence.detector": own(Judging, wrong="details")}, r"judge: details must be 2 texts, or none, got tuple"),
        (
            {"defence.detector": own(Judging, wrong="late_strikes")},
            r"judge: late_strikes must be clients 0..4, got .*99",
        ),
        ({"defence.detector": own(Judging, wrong="unjudged")}, r"judge: unjudged must be \(2,\) bool, got list"),
        ({"defence.detector": own(Judging, wrong="state")}, r"judge must return \(Verdict, state\), got Verdict"),
        (
            {"defence.detector": own(Asking)},
            r"Asking: request: models must be \(2, \d+\) numbers, got \(2, 5\) float32",
        ),
        ({"protocol.staleness": own(Rising)}, r"Rising: weight must be >= 0, got -0.5"),
        ({"protocol.staleness": own(Undefined)}, r"Undefined: weight must be finite, got nan"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value.split(" must")[0],
)
def test_a_faulty_component_is_named_with_what_it_returned(
    scenario: Scenario, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ComponentError, match=said):
        simulate_seed(scenario.override({"protocol": BUFFERED, **changes}), 0)


@pytest.mark.parametrize("divisor", ["buffer", "weight_sum"])
def test_updates_of_weight_zero_leave_the_model_unchanged(scenario: Scenario, divisor: str) -> None:
    protocol = {**BUFFERED, "buffer": 1, "divisor": divisor, "staleness": own(Rising, fresh=0.0)}
    run = simulate_seed(scenario.override({"protocol": protocol}), 0)
    assert run.stopped == "all versions published"
    assert run.rounds[1]["train_loss"] == run.rounds[0]["train_loss"]


FAILING_RULE = """
from asyncfl.defences import Rule


class Failing(Rule):
    kind: str
    version: int = 1

    def aggregate(self, updates, weights):
        raise {error}("in my rule")
"""

ERRORS = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "BrokenPipeError", "EOFError", "KeyError")


@pytest.mark.parametrize("command", [("run",), ("live", "here", "--virtual")], ids=["simulated", "live"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.usefixtures("no_own_module_stays")
def test_an_exception_that_python_or_the_shell_use_for_control_flow_is_not_taken_for_that(
    program: Any, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, command: tuple[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_failing.py").write_text(FAILING_RULE.format(error=error))
    Path("scenario.yaml").write_text(yaml.safe_dump({**tiny, "defence": {"rule": {"kind": "my_failing:Failing"}}}))
    status, _, message = program(*command, "scenario.yaml", "--out", "out", "--quiet")
    assert status == 1
    assert "my_failing:Failing.aggregate failed: " in message
    assert f"line 10: {error}: " in message
    assert not Path("out", "summary.json").exists()
