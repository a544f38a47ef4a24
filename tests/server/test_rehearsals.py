"""Predicting the aggregation of a buffer does not change the state of the defences."""

import copy
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.base.messages import UpdateArrived
from asyncfl.base.streams import Streams
from asyncfl.defences import AnyDetector, AnyRule, Mean, Strikes
from asyncfl.server import Buffered, DefencePlan
from asyncfl.server.aggregation import DefenceState
from asyncfl.server.dispatch import ContinuousDispatch
from asyncfl.testing import buffer, context, server, updates
from asyncfl.testing.laws import same

RULES = [
    *("mean", "krum", "multi_krum", "trimmed_mean", "median", "geometric_median", "bulyan", "norm_clipping"),
    *("centred_clipping", "basgd", "fltrust", "flame", "secure_afl"),
]
DETECTORS = ["safl", "kardam", "zeno++", "aflguard", "async_filter", "fldetector", "spectral", "evidence"]


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
        machine.handle(UpdateArrived(0.0, task))
    for models, struck, moved in (([np.nan, np.inf], [True, True], 0.0), ([np.nan, 3.0], [True, False], 3.0)):
        rows = np.array(models, np.float32)[:, None]
        found, model = machine.rehearse(rows, np.zeros(2), None, lambda client, models: np.ones(len(models)))
        assert (found.tolist(), model.tolist()) == (struck, [moved])
