"""The description of a world: what it accepts, what it refuses, and what it starts."""

import hashlib
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.errors import DataError
from asyncfl.field_texts import schema_with_texts
from asyncfl.streams import Streams
from asyncfl.world import World

numbers = st.floats(1e-3, 1e6)
amounts = st.one_of(
    numbers,
    st.fixed_dictionaries({"kind": st.just("exponential"), "mean": numbers}),
    st.fixed_dictionaries({"kind": st.just("lognormal"), "median": numbers, "sigma": st.floats(0, 3)}),
    st.fixed_dictionaries({"kind": st.just("pareto"), "minimum": numbers, "alpha": st.floats(1.5, 9)}),
)
losses = st.one_of(
    st.just({"kind": "none"}),
    st.fixed_dictionaries({"kind": st.just("independent"), "probability": st.floats(0, 1)}),
    st.fixed_dictionaries(
        {"kind": st.just("gilbert_elliott"), "good_to_bad": st.floats(0.01, 1), "bad_to_good": st.floats(0.01, 1)}
    ),
)
links = st.fixed_dictionaries(
    {},
    optional={
        "latency_s": amounts,
        "bandwidth_bps": amounts | st.just(math.inf),
        "jitter_s": amounts,
        "loss": losses,
        "retransmissions": st.integers(0, 9),
    },
)
worlds = st.fixed_dictionaries(
    {},
    optional={
        "device": st.fixed_dictionaries(
            {"kind": st.just("fixed"), "s_per_sample": numbers}, optional={"jitter": amounts}
        ),
        "uplink": links,
        "downlink": links,
        "availability": st.fixed_dictionaries({"kind": st.just("alternating"), "on_s": amounts, "off_s": amounts}),
        "dropout": st.floats(0, 1),
        "tap": st.fixed_dictionaries({"uplink": st.just(True), "packet_loss": st.floats(0, 1)}),
    },
)


@settings(max_examples=60, deadline=None)
@given(worlds)
def test_a_world_survives_yaml_and_json_and_gives_finite_durations(description) -> None:
    world = World.model_validate(description)
    assert World.model_validate(yaml.safe_load(yaml.safe_dump(world.model_dump(mode="json")))) == world
    assert World.model_validate_json(world.model_dump_json()) == world
    state = world.start(3, Streams(0))
    task = state.task(1, 0)
    durations = [task.download(5000).duration_s, task.compute_s(3), task.upload(5000).duration_s]
    assert all(0 <= seconds < math.inf for seconds in durations)


def test_the_default_world_has_instant_links_and_no_dropouts() -> None:
    state = World().start(2, Streams(0))
    task = state.task(0, 0)
    assert task.download(10**6) == task.upload(10**6)
    assert task.upload(10**6).duration_s == 0
    assert task.compute_s(100, 5) == pytest.approx(0.5)
    assert task.dropout() is None
    assert state.next_change(0, 0.0) == math.inf


def test_the_schema_documents_every_field() -> None:
    schema = schema_with_texts(World)
    for name, model in {"World": schema, **schema["$defs"]}.items():
        for field, properties in model.get("properties", {}).items():
            assert field == "kind" or properties.get("description"), f"{name}.{field}"


def test_all_faults_are_found_at_once() -> None:
    with pytest.raises(ValidationError) as error:
        World.model_validate({"uplink": {"latency_s": -1, "mtu_bytes": 0}, "dropout": 2, "speed": 1})
    assert {fault["loc"][:2] for fault in error.value.errors()} == {
        ("uplink", "latency_s"),
        ("uplink", "mtu_bytes"),
        ("dropout",),
        ("speed",),
    }


def test_digests_cover_every_file_of_measurements(tmp_path) -> None:
    devices, links = tmp_path / "devices.csv", tmp_path / "links.csv"
    devices.write_text("s_per_sample\n0.1\n")
    links.write_text("latency_s,bandwidth_bps\n0.1,1e6\n")
    world = World(
        device={"kind": "csv", "path": str(devices)}, uplink={"profile": str(links)}, downlink={"profile": str(links)}
    )
    assert world.profile_digests() == {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (devices, links)
    }
    assert World().profile_digests() == {}
    links.unlink()
    with pytest.raises(DataError, match=r"links\.csv: cannot be read"):
        world.profile_digests()
    with pytest.raises(DataError, match=r"links\.csv: cannot be read"):
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


def test_shared_processors_exclude_a_training_deadline() -> None:
    (fault,) = World(processors=2.5).deadline_faults(5.0)
    assert fault.message.startswith("must be null with training.deadline_s (5), got 2.5")
    assert not [*World(processors=2.5).deadline_faults(None), *World().deadline_faults(5.0)]
