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


def test_canaries_are_found_in_models_that_controls_have_moved(finished: FinishedRun) -> None:
    audit = audit_canaries(finished, Canaries(count=4), (0,))
    assert len(audit.found) > 0
