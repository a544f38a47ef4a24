"""State of the server's defences: the fallback rule, and predictions that change nothing."""

import copy
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter

from asyncfl.base.streams import Streams
from asyncfl.defences import AnyDetector, AnyRule, Buffer, Detector, Mean, Median, Rule, Strikes, Verdict
from asyncfl.defences.defence_spec import Defence
from asyncfl.protocol import Buffered, DefencePlan
from asyncfl.protocol.aggregation import DefenceState
from asyncfl.protocol.dispatch import ContinuousDispatch
from asyncfl.protocol.messages import UpdateArrived
from asyncfl.scenario import Scenario
from asyncfl.simulation import prepared
from asyncfl.testing import buffer, context, server, updates
from asyncfl.testing.laws import same

UPDATES = np.array([[1.0], [1.0], [10.0]])


class Doubting(Detector):
    """Lets everything in; of the rows in `unsure` it knows nothing."""

    kind: str = "tests.protocol.test_defence_state:Doubting"
    unsure: tuple[int, ...] = ()
    out: tuple[int, ...] = ()

    def judge(self, state: Any, buffer: Buffer, scores: NDArray[np.float64] | None) -> tuple[Verdict, Any]:
        rows = np.arange(len(buffer))
        flagged = np.isin(rows, self.out)
        return Verdict(flagged, np.zeros(len(buffer), dtype=bool), unjudged=np.isin(rows, self.unsure)), state


def moved(detector: Detector, fallback: Rule | None, rule: Rule | None = None, rate: float = 1.0) -> float:
    plan = DefencePlan(rule or Mean(), detector, None, context(3, 1), fallback)
    state = DefenceState(plan, Buffered(rounds=9, buffer=3), 3, Streams(0))
    one = buffer(UPDATES)
    verdict, _ = state.judge(one, None)
    return float(state.aggregate(one, verdict).model[0])


@pytest.mark.parametrize(
    ("unsure", "out", "goes"),
    [
        ((0, 1, 2), (), 1.0),  # nothing is known: the median
        ((0, 1), (), 4.0),  # of one something is known: the mean
        ((0, 2), (1,), 5.5),  # all that is let in is unjudged: the median of 1 and 10
        ((), (), 4.0),
    ],
)
def test_fallback_rule_is_used_if_no_accepted_update_was_judged(
    unsure: tuple[int, ...], out: tuple[int, ...], goes: float
) -> None:
    assert moved(Doubting(unsure=unsure, out=out), Median()) == pytest.approx(goes)


def test_without_one_the_rule_goes_on() -> None:
    assert moved(Doubting(unsure=(0, 1, 2)), None) == pytest.approx(4.0)


class Remembering(Median):
    """A rule that remembers which clients it was told to forget."""

    def start(self, context: Any, random: np.random.Generator) -> Any:
        return ()

    def step(self, state: Any, buffer: Buffer, weights: NDArray[np.float64]) -> tuple[Any, Any]:
        return super().step(None, buffer, weights)[0], state

    def forget_client(self, state: Any, client: int) -> Any:
        return (*state, client)


def test_rules_learn_of_bans_with_or_without_a_detector() -> None:
    for detector in (Doubting(), None):
        plan = DefencePlan(Remembering(), detector, Strikes(threshold=1, window=1), context(3, 1), Remembering())
        state = DefenceState(plan, Buffered(rounds=9, buffer=3), 3, Streams(0))
        assert state.strike(np.array([0, 2]), np.array([False, True])) == (2,)
        assert (state._states["aggregation"], state._states["fallback"]) == ((2,), (2,))


def faults(**defence: Any) -> dict[str, str]:
    found = Defence.model_validate(defence).faults(4)
    return {fault.field: fault.message for fault in found}


def test_fallback_rule_is_refused_without_an_abstaining_detector() -> None:
    median = {"kind": "median"}
    assert faults(fallback=median, detector={"kind": "evidence"}) == {}
    assert faults(fallback=median)["fallback"].startswith("must be null without a detector, got median")
    assert "with detector safl" in faults(fallback=median, detector={"kind": "safl"})["fallback"]
    short = faults(fallback={"kind": "krum", "byzantine": 3}, detector={"kind": "evidence"})
    assert list(short) == ["fallback.byzantine"]
    trusting = faults(fallback={"kind": "fltrust"}, detector={"kind": "evidence"})
    assert trusting == {"root_samples": "must be >= 1 for fallback fltrust, got 0; 100 is usual"}


def test_with_a_fallback_rule_aggregation_is_not_linear(scenario: Scenario) -> None:
    changes = {"defence.detector": {"kind": "evidence"}, "defence.fallback": {"kind": "median"}}
    plan = prepared(scenario.override(changes), 0).plan.defence
    assert isinstance(plan.fallback, Median)
    assert plan.context is not None
    assert not plan.context.linear


RULES = [
    *("mean", "krum", "multi_krum", "trimmed_mean", "median", "geometric_median", "bulyan", "norm_clipping"),
    *("centred_clipping", "basgd", "fltrust", "flame", "secure_afl", "foolsgold", "signguard", "rflbat"),
]
DETECTORS = ["safl", "kardam", "zeno++", "aflguard", "async_filter", "fldetector", "evidence"]


@pytest.mark.parametrize("kind", [*RULES, *DETECTORS])
def test_a_rehearsal_changes_nothing_that_is_remembered(kind: str) -> None:
    is_rule = kind in RULES
    pre = {"pre": [{"kind": "bucketing"}]} if kind == "centred_clipping" else {}
    rule = TypeAdapter(AnyRule).validate_python({"kind": kind, **pre}) if is_rule else Mean()
    detector = None if is_rule else TypeAdapter(AnyDetector).validate_python({"kind": kind})
    known = context(12, root_gradient=lambda model: np.asarray(model - 1, np.float32))
    plan = DefencePlan(rule, detector, None if is_rule else Strikes(), known, fallback=rule)
    state = DefenceState(plan, Buffered(rounds=9, buffer=8), 12, Streams(0))

    def remembered() -> list[Any]:
        return [*state._states.values(), state._strikes]

    def accuracies(client: int, models: Any) -> Any:
        return 1 / (1 + np.abs(models - 1).mean(axis=1))

    for version in range(3):
        held = buffer(updates(8, 4, poisoned=2, seed=version), clients=range(8), version=version)
        before = copy.deepcopy(remembered())
        state.rehearse(held, accuracies)
        assert same(remembered(), before)
        request = state.request(held, ())
        scores = None if request is None else accuracies(request.client, request.models)
        state.aggregate(held, state.judge(held, scores)[0])


def test_a_rehearsal_strikes_what_is_not_sound_and_leaves_it_out() -> None:
    machine = server(Buffered(rounds=2, buffer=2, dispatch=ContinuousDispatch()), clients=2)
    machine.start()
    for task in (0, 1):
        machine.handle(UpdateArrived(task, time_s=0.0))
    for models, struck, moved in (([np.nan, np.inf], [True, True], 0.0), ([np.nan, 3.0], [True, False], 3.0)):
        rows = np.array(models, np.float32)[:, None]
        found, model = machine.rehearse(rows, np.zeros(2), None, lambda client, models: np.ones(len(models)))
        assert (found.tolist(), model.tolist()) == (struck, [moved])
