"""Canaries that count as zero where they are excluded: the neighbours of the credit for secret draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import execute
from asyncfl.base.errors import ScenarioError
from asyncfl.client import Assignment
from asyncfl.data.canaries import Canaries
from asyncfl.extras.audit.canaries import audit_canaries, canaries_for, enter_bounds
from asyncfl.extras.audit.finished_run import FinishedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation.prepare import ResolvedSeed, prepare

STEPS = {"lr": 0.2, "batch_size": 4, "epochs": 4, "batches": "poisson", "example_clip": 1.0}


def finished(folder: Path, noise: float, **more: Any) -> FinishedRun:
    description = {
        "data": {"dataset": "digits", "clients": 2, "samples_per_client": 60},
        "model": {"kind": "linear"},
        "training": {**STEPS, "example_noise": noise},
        "protocol": {"kind": "sync", "rounds": 3},
        "privacy": {"kind": "dp_sgd", "noise_multiplier": noise},
        "world": {"tap": {"uplink": True}},
        **more,
    }
    return FinishedRun.load(execute(Scenario.read(description), folder / "run"))


def test_an_excluded_canary_is_in_no_batch_and_all_else_is_drawn_as_before(tmp_path: Path) -> None:
    scenario = finished(tmp_path, 1.0).run.scenario
    planted = scenario.override({"data.canaries": Canaries(count=40, excluded="zeroed").model_dump()})
    federation, plain = (prepare(ResolvedSeed(one, 0, 0)) for one in (planted, scenario))
    canaries = federation.data.canaries
    assert canaries is not None
    task = Assignment(0, 1, 0, federation.plan.initial, 0)
    job, before = (one.path._poison.job(task) for one in (federation, plain))
    away = set(canaries.left_out[1].tolist())
    assert len(away) == np.count_nonzero(~canaries.included[canaries.owners == 1]) > 5
    for epoch, epoch_before in zip(job.order, before.order, strict=True):
        for batch, drawn in zip(epoch, epoch_before, strict=True):
            assert batch.tolist() == [one for one in drawn.tolist() if one not in away]


def test_canaries_of_poisson_batches_are_recognised_and_bound_the_rows_of_their_neighbours(tmp_path: Path) -> None:
    run = finished(tmp_path, 0.05)
    canaries = canaries_for(run.run.scenario, 100, "sample", "mislabelled")
    assert canaries.excluded == "zeroed"
    audit = audit_canaries(run, canaries, (0,))
    rows = audit.found.to_pandas().set_index("adversary")
    assert set(rows["neighbours"]) == {"one sample counts as zero"}
    assert rows.loc["server", "measured"] > 0.5
    assert (rows["measured"] <= rows["exact_epsilon"]).all()
    assert enter_bounds(run.run, audit) > 0
    entered = run.run.tables["ledger"].to_pandas().dropna(subset="measured_by_canaries")
    assert set(entered["neighbours"]) == {"zero_out"}


def test_noise_hides_them(tmp_path: Path) -> None:
    run = finished(tmp_path, 1.5)
    rows = audit_canaries(run, canaries_for(run.run.scenario, 100, "sample", "noise"), (0,)).found.to_pandas()
    assert (rows["measured"] <= rows["exact_epsilon"]).all()


def test_numbers_of_different_neighbours_are_not_put_side_by_side(tmp_path: Path) -> None:
    run = finished(tmp_path, 1.0)
    audit = audit_canaries(run, Canaries(count=20), (0,))
    rows = audit.found.to_pandas()
    assert set(rows["neighbours"]) == {"one sample replaced"}
    assert rows["exact_epsilon"].isna().all()
    assert rows["claimed_epsilon"].isna().all()
    assert enter_bounds(run.run, audit) == 0


def test_canary_clients_audit_the_credit_for_being_drawn(tmp_path: Path) -> None:
    """Their updates count as zero where they are excluded, as in the guarantee."""
    run = finished(
        tmp_path,
        0.0,
        data={"dataset": "digits", "clients": 60, "samples_per_client": 10},
        training={"lr": 0.5, "batch_size": 5},
        protocol={
            "kind": "sync",
            "rounds": 12,
            "participants": 12,
            "weighting": "uniform",
            "divide_by": "expected",
            "selection": {"kind": "poisson"},
        },
        privacy={
            "kind": "dp_fedavg",
            "noise_multiplier": 0.4,
            "noise_at": "server",
            "clip_norm": 0.5,
            "neighbours": "zero_out",
        },
    )
    rows = audit_canaries(run, canaries_for(run.run.scenario, 50, "client", "noise"), (0,)).found.to_pandas()
    public = rows.set_index("adversary").loc["public"]
    assert public["most"] > 1.0
    assert public["measured"] <= public["exact_epsilon"] < 50


def test_they_need_poisson_batches_and_samples() -> None:
    data = {"dataset": "digits", "clients": 2, "samples_per_client": 20}
    plain = {
        "data": {**data, "canaries": {"count": 3, "excluded": "zeroed"}},
        "protocol": {"kind": "sync", "rounds": 1},
    }
    with pytest.raises(ScenarioError, match=r"data.canaries.excluded: must be replaced where training.batches"):
        Scenario.read(plain)
    clients = {**data, "canaries": {"count": 2, "unit": "client", "excluded": "zeroed"}}
    with pytest.raises(ScenarioError, match=r"data.canaries.excluded: must be left out with unit: client"):
        Scenario.read({**plain, "data": clients})
