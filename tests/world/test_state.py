"""The draws of a task: by hand, independent of the order of questions, and unchanged by settings of other phases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from asyncfl.base.streams import Streams
from asyncfl.world import World

BYTES = 200_000
LOSSY = {
    "latency_s": 0.05,
    "bandwidth_bps": 10e6,
    "jitter_s": {"kind": "exponential", "mean": 0.02},
    "loss": {"kind": "independent", "probability": 0.1},
}
RICH = {
    "device": {
        "kind": "lognormal",
        "median_s_per_sample": 0.002,
        "sigma": 0.5,
        "jitter": {"kind": "lognormal", "median": 1, "sigma": 0.2},
    },
    "downlink": LOSSY,
    "uplink": LOSSY,
    "dropout": 0.3,
    "tap": {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.005},
}


def start(clients=20, seed=1, **changes):
    return World.model_validate(RICH | changes).start(clients, Streams(seed))


def everything(draws) -> tuple:
    return draws.download(BYTES), draws.compute_s(100, 5), draws.dropout(), draws.upload(BYTES)


def test_a_task_in_a_plain_world_worked_out_by_hand() -> None:
    world = World(
        device={"kind": "fixed", "s_per_sample": 0.002, "jitter": 1.5},
        downlink={"latency_s": 0.1, "bandwidth_bps": 1.6e6},
        uplink={"latency_s": 0.2, "bandwidth_bps": 0.8e6},
    )
    task = world.start(3, Streams(0)).task(2, 0)
    assert task.download(BYTES).duration_s == pytest.approx(1.1)
    assert task.compute_s(100, 5) == pytest.approx(1.5)
    assert task.evaluate_s(100, models=6) == pytest.approx(0.6)
    assert task.dropout() is None
    assert task.upload(BYTES).duration_s == pytest.approx(2.2)
    assert not task.upload(BYTES).overheard


@settings(max_examples=30, deadline=None)
@given(st.permutations(["download", "compute_s", "upload", "dropout"] * 2), st.integers(0, 50))
def test_draws_depend_neither_on_the_order_nor_on_the_number_of_calls(order, number) -> None:
    state = start()
    arguments = {"download": (BYTES,), "upload": (BYTES,), "compute_s": (100, 5), "dropout": ()}
    task, answers = state.task(3, number), {}
    for name in order:
        everything(state.task(4, number))  # another task asked in between
        answer = getattr(task, name)(*arguments[name])
        assert answers.setdefault(name, answer) == answer
    assert tuple(answers[n] for n in ("download", "compute_s", "dropout", "upload")) == everything(
        start().task(3, number)
    )


@pytest.mark.parametrize(
    ("changes", "may_change"),
    [
        ({"downlink": LOSSY | {"loss": {"kind": "none"}}}, {0}),
        ({"downlink": LOSSY | {"jitter_s": 0}}, {0}),
        ({"device": {"kind": "fixed", "jitter": {"kind": "uniform", "low": 0, "high": 2}}}, {1}),
        ({"dropout": 0.0}, {2}),
        ({"dropout": 1.0}, {2}),
        ({"uplink": {"loss": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.1}}}, {3}),
    ],
)
def test_a_setting_of_one_phase_leaves_the_draws_of_the_others(changes, may_change) -> None:
    before, after = start(), start(**changes)
    changed = set()
    for task in range(20):
        pairs = zip(everything(before.task(1, task)), everything(after.task(1, task)), strict=True)
        changed |= {phase for phase, (a, b) in enumerate(pairs) if a != b}
    assert changed == may_change


def test_the_tap_changes_no_transfer() -> None:
    tapped, alone = start(), start(tap={})
    for number in range(30):
        a, b = tapped.task(0, number).upload(BYTES), alone.task(0, number).upload(BYTES)
        assert not b.overheard
        assert a._replace(overheard_s=math.inf, caught_s=math.inf) == b


@pytest.mark.parametrize("covered", ["uplink", "downlink", "scoring"])
def test_the_tap_hears_what_it_covers(covered) -> None:
    state = start(tap={covered: True})
    task, scoring = state.task(0, 0), state.scoring(0, 0)
    heard = {
        "uplink": task.upload(BYTES).overheard,
        "downlink": task.download(BYTES).overheard,
        "scoring": scoring.download(BYTES).overheard and scoring.upload(1).overheard,
    }
    assert heard == {name: name == covered for name in heard}
    if covered != "scoring":
        assert not scoring.upload(BYTES).overheard


def test_dropouts_have_their_probability_and_are_uniform_over_the_computation() -> None:
    state = start()
    shares = [state.task(n % 20, n).dropout() for n in range(4000)]
    dropped = np.array([share for share in shares if share is not None])
    assert abs(dropped.size - 1200) < 4 * math.sqrt(4000 * 0.3 * 0.7)
    assert 0 <= dropped.min() < dropped.max() < 1
    assert abs(dropped.mean() - 0.5) < 4 / math.sqrt(12 * dropped.size)
    assert start(dropout=1.0).task(0, 0).dropout() is not None


def test_a_larger_population_begins_with_the_same_clients() -> None:
    few, many = start(clients=5), start(clients=50)
    np.testing.assert_array_equal(few.s_per_sample, many.s_per_sample[:5])
    assert everything(few.task(4, 1)) == everything(many.task(4, 1))


def test_equal_seeds_give_equal_draws_and_the_clock_has_a_seed_of_its_own() -> None:
    assert everything(start(seed=1).task(0, 0)) == everything(start(seed=1).task(0, 0))
    assert everything(start(seed=1).task(0, 0)) != everything(start(seed=2).task(0, 0))
    world = World.model_validate(RICH)
    by_clock = world.start(20, Streams(7, clock=1))
    assert everything(by_clock.task(0, 0)) == everything(start(seed=1).task(0, 0))


def test_tasks_are_given_up_at_exponential_times() -> None:
    state = start(dropout_per_s=0.25)
    times_s = [state.task(n % 20, n).gives_up_s() for n in range(2000)]
    assert stats.kstest(times_s, stats.expon(scale=4).cdf).pvalue > 1e-3
    assert start(dropout_per_s=0).task(0, 0).gives_up_s() == math.inf


def test_the_server_learns_of_an_absence_when_the_lease_ends_or_the_client_returns() -> None:
    away = {"kind": "alternating", "on_s": 5, "off_s": 20}
    state = start(availability=away, failure_detection={"kind": "lease", "seconds": 8.0})
    gone_s = next(at for client in range(20) if state.online(client, 0.0) and (at := state.next_change(client, 0.0)))
    client = next(client for client in range(20) if state.next_change(client, 0.0) == gone_s)
    assert state.detected_s(client, gone_s) == gone_s + 8.0
    assert not state.all_online(gone_s)[client]
    patient = start(availability=away, failure_detection={"kind": "lease", "seconds": 60.0})
    assert patient.detected_s(client, gone_s) == pytest.approx(gone_s + 20.0)
