"""Payloads: what is declared, and what their messages weigh."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from asyncfl.algorithms import FedAvg, Payload, Payloads
from asyncfl.algorithms.algorithm import declared, sent
from asyncfl.base.disclosure import LOSSES, Leak, Public
from asyncfl.base.errors import ComponentError, ScenarioError
from asyncfl.scenario import Scenario
from asyncfl.simulation.phases import Workload
from tests.algorithms.control_variate import ControlVariate

NUMBER = Payload("number", 1, Public("of the device"))


def test_messages_weigh_the_sum_of_their_payloads(description: dict[str, Any]) -> None:
    sizes = np.full(4, 24)
    plain = Workload.of(Scenario.read(description | {"algorithm": {"kind": "fedavg"}}), sizes)
    with_control = Workload.of(Scenario.read(description), sizes)
    assert plain.upload_bytes == plain.download_bytes == plain.payload_bytes
    assert with_control.upload_bytes == with_control.download_bytes == 2 * plain.payload_bytes
    assert with_control.payload_bytes == plain.payload_bytes


def test_fedavg_is_the_default_and_not_in_the_digest(description: dict[str, Any]) -> None:
    description["algorithm"] = {"kind": "fedavg"}
    given = Scenario.read(description)
    del description["algorithm"]
    default = Scenario.read(description)
    assert default.algorithm == FedAvg()
    assert default.digest() == given.digest()
    assert default.payloads == Payloads()


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"number": np.ones(1), "other": np.ones(1)}, "after_training sends payload other; declared payloads: number"),
        ({}, "after_training lacks payload number; declared: number"),
        ({"number": np.ones(2)}, r"payload number must be \(1,\) numbers"),
    ],
)
def test_vectors_that_differ_from_the_declaration_are_refused(vectors: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ComponentError, match=message):
        sent(ControlVariate(), "after_training", vectors, (NUMBER,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("update", 1, Public("")), "a name other than update"),
        (("number", 0, Public("")), "a size of at least 1"),
        (("number", 1, Leak(LOSSES, Public(""))), "must have the flag 'payloads without noise'"),
    ],
)
def test_unsound_declarations_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Payload(*arguments)


def test_two_payloads_of_one_name_are_refused() -> None:
    class Twice(ControlVariate):
        def payloads(self, n_parameters: int) -> Payloads:
            return Payloads((NUMBER, NUMBER))

    with pytest.raises(ComponentError, match="uploads must have different names"):
        declared(Twice(), 3)


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"evaluation.audit": {}}, "evaluation.audit"),
        ({"model.personal": ["1.*"]}, "model.personal"),
        ({"data.canaries": {"unit": "client", "count": 2}}, "data.canaries.unit: client"),
    ],
)
def test_settings_that_cannot_carry_payloads_are_refused(
    description: dict[str, Any], changes: dict[str, Any], setting: str
) -> None:
    for name, value in changes.items():
        section, _, field = name.partition(".")
        description[section] = description.get(section, {}) | {field: value}
    with pytest.raises(ScenarioError, match=f"must be fedavg.* with {setting}, got"):
        Scenario.read(description)
