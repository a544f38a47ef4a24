"""A server that has none of its clients' samples: what it refuses, and what it keeps of the scenario's data."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import prepare, resolve
from asyncfl.live.faults import serving_faults
from asyncfl.live.joining import without_samples
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from tests.live.conftest import SMALL


def changed(**changes: Any) -> Scenario:
    """The small scenario with other parts, whether or not they go together."""
    scenario = Scenario.read(SMALL)
    for name, part in changes.items():
        if isinstance(part, dict):
            changes[name] = getattr(scenario, name).model_copy(update=part)
    return scenario.model_copy(update=changes)


def along(what: str) -> dict[str, Any]:
    return {"availability": SimpleNamespace(varies=SimpleNamespace(along=what))}


@pytest.mark.parametrize(
    ("changes", "shape", "told"),
    [
        ({}, True, []),
        (
            {"data": {"domains": ("mnist", "usps"), "dataset": None}},
            False,
            ["data.domains: must be left out: of which domain a client's own samples are nobody knows"],
        ),
        (
            {"data": {"dataset": object()}},
            False,
            ["data.dataset: must be the name of a data set: by that clients know what their samples must be like"],
        ),
        (
            {"data": {"concept": object(), "canaries": object()}, "seeds": (0, 1)},
            False,
            [
                "data.concept: must be null: clients bring samples of their own, and see them as they are",
                "data.canaries: must be null: nobody plants anything in samples that clients bring",
                "seeds: must be one, got 2: clients take part in one run; add --set seeds=1",
            ],
        ),
        (
            {"evaluation": {"clients_every": 1}},
            False,
            ["evaluation.clients_every: must be 0, got 1: nobody has a client's samples but itself; leave it out"],
        ),
        (
            {"world": along("samples")},
            True,
            ["world.availability.varies.along: must be speed: no client knows how many samples others have"],
        ),
        ({"world": along("samples")}, False, []),
        ({"world": along("speed")}, True, []),
    ],
)
def test_fields_that_need_the_clients_samples_are_refused(
    changes: dict[str, Any], shape: bool, told: list[str]
) -> None:
    assert [str(fault) for fault in serving_faults(changed(**changes), shape=shape)] == told


def test_a_server_without_samples_keeps_the_test_set_and_the_noise_calibration() -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}
    whole = prepare(resolve(Scenario.read({**SMALL, "privacy": privacy}), 0, SimulatedRuns()))
    tested, known = whole.data.test_labels, whole.path.context
    assert known.equal_weights
    kept = without_samples(whole)
    assert (len(kept.data.images), len(kept.data.labels), kept.data.canaries) == (0, 0, None)
    assert kept.data.sizes.tolist() == [0] * 6
    assert kept.data.test_labels is tested
    assert (kept.path, kept.path.data) == (whole.path, kept.data)
    context = kept.path.context
    assert (context.clients, context.smallest_samples, context.equal_weights) == (6, known.smallest_samples, False)
    assert kept.path.state.clip_norm(np.ones(1)) == 2.0
