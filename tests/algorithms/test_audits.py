"""Audits of runs whose algorithm exchanges more than models and updates."""

from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import execute
from asyncfl.base.errors import ScenarioError
from asyncfl.data.canaries import Canaries
from asyncfl.extras.audit.canaries import audit_canaries
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.extras.audit.membership import audit_membership
from asyncfl.extras.audit.neighbours.audit_run import audit_neighbours
from asyncfl.extras.audit.reconstruction.image_reconstruction import ReconstructionSettings
from asyncfl.measurements import TwinAudit
from asyncfl.scenario import Scenario


@pytest.fixture
def finished(scenario: Scenario, tmp_path: Path) -> FinishedRun:
    execute(scenario, tmp_path / "run")
    return FinishedRun.load(tmp_path / "run")


def test_audits_that_train_tasks_again_refuse_payloads_by_name(finished: FinishedRun) -> None:
    trials: list[Any] = [
        lambda: audit_membership(finished, (0,)),
        lambda: audit_neighbours(finished, TwinAudit(clients=2), (0,)),
        lambda: ReconstructionSettings().check(finished.run.scenario),
    ]
    for trial in trials:
        with pytest.raises(ScenarioError, match=r"algorithm\.kind: must be fedavg, as .* without control, got tests\."):
            trial()


@pytest.mark.parametrize("kind", ["fedadam", "fadas", "mifa"])
def test_twins_audit_runs_of_which_only_the_server_differs(
    kind: str, description: dict[str, Any], tmp_path: Path
) -> None:
    """In the run and afterwards: clients train as with FedAvg, so that a task can be trained again."""
    private = {"kind": "dp_fedavg", "noise_multiplier": 1.0, "clip_norm": 0.1, "noise_at": "client"}
    changes = {"algorithm": {"kind": kind}, "privacy": private}
    audit = {"clients": 2, "twins": 4}
    within = execute(Scenario.read(description | changes | {"evaluation": {"audit": audit}}), tmp_path / "within")
    execute(Scenario.read(description | changes), tmp_path / "after")
    after = audit_neighbours(FinishedRun.load(tmp_path / "after"), TwinAudit(**audit), (0,))
    assert after.tables["audit"].num_rows > 0
    assert FinishedRun.load(within).run.tables["audit"].equals(after.tables["audit"])


def test_canaries_are_found_in_models_that_controls_have_moved(finished: FinishedRun) -> None:
    audit = audit_canaries(finished, Canaries(count=4), (0,))
    assert len(audit.found) > 0
