"""The description of a world: what it accepts, what it refuses, and what it starts."""

import hashlib
import math

import pytest
import yaml
from pydantic import ValidationError

from asyncfl.base.errors import DataError
from asyncfl.base.field_texts import schema_with_texts
from asyncfl.base.streams import Streams
from asyncfl.world import World

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


def test_shared_processors_exclude_a_training_deadline() -> None:
    (fault,) = World(processors=2.5).deadline_faults(5.0)
    assert fault.message.startswith("must be null with training.deadline_s (5), got 2.5")
    assert not [*World(processors=2.5).deadline_faults(None), *World().deadline_faults(5.0)]
