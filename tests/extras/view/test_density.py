"""How many tasks are under way, by lanes and spans, and how full the buffer is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.extras.view import page
from asyncfl.extras.view.packing import SPANS, density
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.storage import Run
from tests.extras.view.test_page import header_of


def test_a_task_counts_in_a_span_for_its_duration() -> None:
    # Spans of 0.01 s; clients 0 and 1 share a lane, 2 has one of its own.
    began, ended = np.array([0.0, 0.015, 0.0, np.nan]), np.array([0.01, 0.03, 5.0, np.nan])
    lanes = density(began, ended, np.array([0, 1, 2, 2]), 3, 2, 5.0).reshape(2, SPANS)
    np.testing.assert_allclose(lanes[0, :4], [0.5, 0.25, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(lanes[1], 1.0)


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.integers(0, 6)), max_size=20), st.integers(1, 7))
def test_all_that_is_under_way_is_in_some_cell(tasks: list[tuple[float, float, int]], per_lane: int) -> None:
    began, ended = (np.array([one[side] for one in tasks], np.float64) for side in (0, 1))
    began, ended = np.minimum(began, ended), np.maximum(began, ended)
    client = np.array([one[2] for one in tasks], np.int64)
    lanes = density(began, ended, client, 7, per_lane, 9.0).reshape(-1, SPANS)
    in_lane = np.bincount(np.arange(7) // per_lane)
    assert (lanes.sum(axis=1) * 9.0 / SPANS * in_lane).sum() == pytest.approx((ended - began).sum(), abs=1e-6)
    assert (lanes >= 0).all()


def test_a_run_with_many_tasks_becomes_a_density_and_its_first_tasks(busy: Run) -> None:
    header, numbers = header_of(page(busy, "run", most_tasks=10))
    (run,) = header["runs"]
    every = Tasks.of(busy.tables["tasks"])
    assert run["window"].startswith(f"These are {len(every)} tasks, shown as a density")
    for seed in run["seeds"]:
        told, tasks = seed["density"], every.select(seed=seed["seed"])
        assert (told["tasks"], told["clients_per_lane"], told["lanes"]) == (len(tasks), 1, 6)
        under_way = numbers(told["layers"]["all"])
        lasting = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s) - tasks.dispatched_s
        seconds = under_way.sum() / told["parts"] * seed["end"] / 1e6 / told["spans"]
        assert seconds == pytest.approx(lasting.sum(), rel=0.01)
        assert seed["held"][0] == 0
        assert seed["tasks"]["task"]["n"] == len(tasks.select(until_s=seed["held"][1]))
    assert "density" not in header_of(page(busy, "run"))[0]["runs"][0]["seeds"][0]


def test_the_fill_follows_the_updates_that_the_server_holds(busy: Run) -> None:
    header, numbers = header_of(page(busy, "run"))
    for seed in header["runs"][0]["seeds"]:
        fill, times = numbers(seed["rounds"]["fill"]), numbers(seed["rounds"]["fill_time"])
        tasks = Tasks.of(busy.tables["tasks"]).select(seed=seed["seed"])
        assert (fill[0], fill[-1]) == (0, (tasks.held & np.isnan(tasks.settled_s)).sum())
        assert (fill >= 0).all()
        assert (np.diff(times) >= 0).all()
        assert np.diff(fill)[np.diff(fill) > 0].sum() == tasks.held.sum()
