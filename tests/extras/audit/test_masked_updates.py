"""Audits compare single updates, which secure aggregation shows to nobody: they refuse such runs by name."""

from asyncfl.extras.audit.finished_run import algorithm_faults
from asyncfl.scenario import Scenario


def test_a_run_with_secure_aggregation_is_not_audited() -> None:
    protocol = {"kind": "sync", "rounds": 2, "secure_aggregation": {"kind": "pairwise"}}
    scenario = Scenario.read({"data": {"clients": 5}, "protocol": protocol})
    [fault] = algorithm_faults(scenario)
    assert fault.field == "protocol.secure_aggregation"
    assert "audits compare single updates, which nobody holds, got pairwise; audit a run without it" in fault.message
    assert not list(algorithm_faults(scenario.override({"protocol.secure_aggregation": None})))
