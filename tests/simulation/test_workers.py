"""Clients that share a machine wait for each other."""

import math
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.seed_run import SeedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.trace.tasks import tasks_of


def clock(workers: int | None, **world: Any) -> SeedRun:
    return simulate_clock(
        Scenario.read(
            {
                "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 10, "source": "embedded"},
                "model": {"kind": "mlp", "hidden": [4]},
                "protocol": {"kind": "sync", "rounds": 4},
                "world": {"device": {"kind": "fixed", "s_per_sample": 0.1}, "workers": workers, **world},
            }
        ),
        0,
    )


@pytest.mark.parametrize(("workers", "round_s"), [(None, 1), (6, 1), (3, 2), (2, 3), (4, 2), (1, 6)])
def test_equal_clients_share_places_in_turns(workers: int | None, round_s: float) -> None:
    published = [row["time_s"] for row in clock(workers).rounds]
    assert published == pytest.approx([round_s * number for number in range(5)])


def test_a_place_stands_empty_between_two() -> None:
    published = [row["time_s"] for row in clock(2, turnaround_s=0.25).rounds]
    # three turns of 1 s with two pauses between them; the pause after the third is over when the next round begins
    assert np.diff(published) == pytest.approx([3.5, 3.75, 3.75, 3.75])


def test_waiting_for_a_place_does_not_count_towards_dropout() -> None:
    """Waiting does not count as time at the task, whether or not links are shared."""
    alone, shared = (
        tasks_of(clock(1, dropout_per_s=0.3, uplink={"latency_s": 0.5, "server_bandwidth_bps": bps}).events)
        for bps in (math.inf, 1e18)
    )
    assert len(set(alone.fate.tolist())) == 2  # some are aggregated, some given up
    assert shared.fate.tolist() == alone.fate.tolist()
    np.testing.assert_allclose(shared.end_s, alone.end_s)


def test_waiting_clients_train_in_order_of_arrival() -> None:
    tasks = tasks_of(clock(2).events)
    first = tasks.only(tasks.base_version == 0)
    assert sorted(first.training_started_s.tolist()) == pytest.approx([0, 0, 1, 1, 2, 2])
    assert (first.downloaded_s == 0).all()
    order = np.argsort(first.training_started_s, kind="stable")
    assert first.task[order].tolist() == sorted(first.task.tolist())
