"""A world: its description, and the draws of a task, which depend on no setting of another phase."""

import hashlib
import math

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.world import World
from asyncfl.world.failure_detection import InstantDetection, LeaseDetection
from asyncfl.world.keyed_stream import KeyedStream

RICH = {
    "device": {"kind": "fixed", "s_per_sample": 0.01, "jitter": {"kind": "lognormal", "median": 1.0, "sigma": 0.2}},
    "uplink": {
        "latency_s": {"kind": "pareto", "minimum": 0.1, "alpha": 1.5},
        "bandwidth_bps": [1e6, 2e6, math.inf],
        "jitter_s": {"kind": "exponential", "mean": 0.02},
        "loss": {"kind": "gilbert_elliott", "good_to_bad": 0.01, "bad_to_good": 0.2},
    },
    "availability": {"kind": "alternating", "on_s": 60, "off_s": {"kind": "exponential", "mean": 20}},
    "dropout": 0.1,
    "power": {"compute_w": 4.0},
    "tap": {"uplink": True, "packet_loss": 0.1},
}


def test_a_world_survives_yaml_and_json() -> None:
    world = World.model_validate(RICH)
    assert World.model_validate(yaml.safe_load(yaml.safe_dump(world.model_dump(mode="json")))) == world
    assert World.model_validate_json(world.model_dump_json()) == world


def test_digests_cover_every_file_of_measurements(tmp_path) -> None:
    devices, links, online = (tmp_path / f"{name}.csv" for name in ("devices", "links", "online"))
    devices.write_text("s_per_sample\n0.1\n")
    links.write_text("latency_s,bandwidth_bps\n0.1,1e6\n")
    online.write_text("device,from_s,until_s\n7,10,20\n")
    link = {"profile": str(links)}
    of_file = {"device": {"kind": "csv", "path": str(devices)}, "availability": {"kind": "csv", "path": str(online)}}
    world = World(**of_file, uplink=link, downlink=link)
    assert world.profile_digests() == {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (devices, links, online)
    }
    assert World().profile_digests() == {}
    links.unlink()
    with pytest.raises(
        DataError, match=r"world\.uplink\.profile: must be a CSV file, and \S+links\.csv cannot be read: No"
    ):
        world.profile_digests()
    with pytest.raises(DataError, match=r"world\.downlink\.profile: must be a CSV file, and"):
        world.start(2, Streams(0))


def test_settings_under_which_no_task_could_finish_are_named() -> None:
    lost = {"loss": {"kind": "independent", "probability": 1.0}}
    world = World.model_validate({"dropout": 1.0, "uplink": lost, "downlink": lost})
    assert [(fault.field, fault.message) for fault in world.progress_faults()] == [
        ("dropout", "must be below 1, got 1: no client would ever finish a task"),
        ("downlink.loss", "must let some packets through, got a loss of all: nothing would arrive"),
        ("uplink.loss", "must let some packets through, got a loss of all: nothing would arrive"),
    ]
    some = {"loss": {"kind": "independent", "probability": 0.999}}
    assert list(World.model_validate({"dropout": 0.999, "uplink": some}).progress_faults()) == []


BYTES = 200_000
LOSSY = {
    "latency_s": 0.05,
    "bandwidth_bps": 10e6,
    "jitter_s": {"kind": "exponential", "mean": 0.02},
    "loss": {"kind": "independent", "probability": 0.1},
}
LIVELY = {
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
    return World.model_validate(LIVELY | changes).start(clients, Streams(seed))


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


@settings(max_examples=30)
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
    tapped, alone = start(), start(tap={"uplink": False})
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
    world = World.model_validate(LIVELY)
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


def test_a_lease_ends_unless_the_client_is_back_before() -> None:
    lease = LeaseDetection(seconds=20.0)
    assert lease.detected_s(5.0, 100.0) == 25.0
    assert lease.detected_s(5.0, 12.0) == 12.0
    assert lease.detected_s(5.0, math.inf) == 25.0
    assert InstantDetection().detected_s(5.0, 12.0) == 5.0


def test_phase_0_begins_as_the_tasks_own_stream() -> None:
    stream = KeyedStream(Streams(5), "task_clock")
    for client, number in [(0, 0), (7, 3), (2**31 - 1, 2**31 - 1), (7, 3)]:
        own = Streams(5).generator("task_clock", client, number)
        rng = stream.at(client, number, 0)
        np.testing.assert_array_equal(rng.random(9), own.random(9))
        assert rng.standard_normal() == own.standard_normal()


def test_earlier_draws_do_not_change_later_ones() -> None:
    stream = KeyedStream(Streams(5), "task_clock")
    first = stream.at(1, 1, 2).random(3)
    stream.at(9, 9, 0).integers(5, size=3, dtype=np.uint32)  # leaves half a word in the generator's buffer
    again = stream.at(1, 1, 2)
    assert again.integers(2**32, dtype=np.uint32) is not None
    np.testing.assert_array_equal(stream.at(1, 1, 2).random(3), first)
