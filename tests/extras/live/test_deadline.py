"""Clients that really train stop at the deadline by clocks of their own; here these go on at each look at them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from asyncfl.extras.live.local_training import LocalTraining
from asyncfl.protocol.event_query import select
from asyncfl.protocol.messages import Fate
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live.conftest import SMALL
from tests.extras.live.flower.test_run_on_grid import over_flower
from tests.extras.live.test_live import whole

PRIVATE: dict[str, Any] = {
    "training": {
        "lr": 0.1,
        "batch_size": 10,
        "epochs": 3,
        "deadline_s": 5.0,
        "example_clip": 1.0,
        "example_noise": 2.0,
    },
    "protocol": {"kind": "sync", "rounds": 3, "partial_work": "work"},
    "privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 2.0},
}
"""Two steps an epoch."""


Clock = Callable[[Callable[[], float]], None]


@pytest.fixture(name="clock")
def make_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the seconds by which the clock goes on at each look at it."""

    def set_clock(step_s: Callable[[], float]) -> None:
        at = [0.0]

        def now() -> float:
            at[0] += step_s()
            return at[0]

        monkeypatch.setattr(LocalTraining, "now", staticmethod(now))

    return set_clock


def uneven() -> Callable[[], float]:
    """Now slow, now fast."""
    random = np.random.default_rng(0)
    return lambda: float(random.exponential(1.2))


def epochs_done(run: SeedRun) -> dict[int, int]:
    """Task -> epochs of the clients that a deadline stopped and that had something to send."""
    rows = run.tasks.filter(pc.is_valid(run.tasks["epochs"])).filter(pc.field("outcome") == "uploaded")
    return dict(zip(rows["task"].to_pylist(), rows["epochs"].to_pylist(), strict=True))


def test_completed_epochs_are_sent_and_a_client_without_any_gives_up(live: Any, clock: Clock) -> None:
    clock(uneven())
    run = live(Scenario.read({**SMALL, **PRIVATE}), shape=False)
    assert run.stopped == "all versions published"
    whole(run)
    done = {one.contribution.epochs for one in run.uploads}
    assert done == {None, 1, 2}
    told = epochs_done(run)
    assert {one.task: one.contribution.epochs for one in run.uploads if one.contribution.epochs} == told
    # Each epoch is a release of its own: the ledger counts those that were done.
    assert {one.release.count for one in run.uploads} == {1, 2, 3}
    assert run.fates[Fate.DROPPED_OUT] > 0
    gone = select(run.events, kinds=["dropped_out"])
    assert set(gone["detail"].to_pylist()) == {"no epoch by its deadline"}
    assert not set(gone["task"].to_pylist()) & {one.task for one in run.uploads}
    assert len(SeedLedger(run).ledger)
    for model in run.models.values():
        work = [one.contribution.epochs or 3 for one in model.uploads]
        np.testing.assert_allclose([one.weight for one in model.uploads], np.array(work) / sum(work))


def test_deadlines_over_flower(clock: Clock) -> None:
    clock(uneven())
    run, _, _ = over_flower({**PRIVATE, "protocol": {**PRIVATE["protocol"], "rounds": 6}})
    assert run.stopped == "all versions published"
    whole(run)
    assert {one.contribution.epochs for one in run.uploads} == {None, 1, 2}
    assert {one.task: one.contribution.epochs for one in run.uploads if one.contribution.epochs} == epochs_done(run)
    gone = select(run.events, kinds=["dropped_out"])["detail"].to_pylist()
    assert set(gone) == {"no epoch by its deadline"}


def test_a_client_stopped_after_two_epochs_sends_the_update_of_two_epochs(live: Any, clock: Clock) -> None:
    """Whoever is stopped after two epochs of three sends what whoever has two sends."""
    clock(lambda: 1.0)
    private = {
        "training": {"lr": 0.1, "batch_size": 10, "gradient_clip": 1.0},
        "privacy": {"kind": "local_gaussian", "epsilon": 50.0, "clip_norm": 1.0, "noise": "epoch"},
        "protocol": {"kind": "sync", "rounds": 1},
    }
    stopped, told = (
        live(Scenario.read({**SMALL, **private, "training": {**private["training"], **training}}), shape=False)
        for training in ({"epochs": 3, "deadline_s": 5.0}, {"epochs": 2})
    )
    assert {one.release.count for one in stopped.uploads} == {2} == {one.release.count for one in told.uploads}
    assert [one.loss for one in stopped.uploads] == [one.loss for one in told.uploads]
    assert stopped.rounds[1]["test_loss"] == told.rounds[1]["test_loss"]
