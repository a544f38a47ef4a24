"""Predicting the aggregation of a buffer does not change the state of the defences."""

import copy
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.base.streams import Streams
from asyncfl.defences import AnyDetector, AnyRule, Mean, Strikes
from asyncfl.server import Buffered, DefencePlan
from asyncfl.server.aggregation import DefenceState
from asyncfl.testing import buffer, context, updates
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
