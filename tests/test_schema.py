"""The public description of a scenario: its JSON schema, its defaults, and which numbers must be finite."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.manual.starter import STARTERS
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import Limits

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "examples/my_scenario.yaml": read_yaml(ROOT / "examples" / "my_scenario.yaml"),
    **{name: fields for name, (_, fields) in STARTERS.items()},
    **{
        file.name: read_yaml(file) for file in sorted((ROOT / "tests" / "fuzz" / "corpus" / "scenarios").glob("*.yaml"))
    },
}
SMALLEST: dict[str, Any] = {"protocol": {"kind": "sync", "rounds": 3}}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Return the schema that `asyncfl schema` prints."""
    from typer.testing import CliRunner

    from asyncfl.cli import app

    found: dict[str, Any] = json.loads(CliRunner().invoke(app, ["schema"]).stdout)
    return found


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> Any:
    """Return a validator, which checks the schema itself once and not at each scenario."""
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def parts_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the scenario and every section and component in it that has fields, with its name."""
    for name, part in {"Scenario": schema, **schema["$defs"]}.items():
        if part.get("type") == "object" and "properties" in part:
            yield name, part


def test_every_field_has_a_description(schema: dict[str, Any]) -> None:
    silent = [
        f"{name}.{field}"
        for name, part in parts_of(schema)
        for field, told in part["properties"].items()
        if field != "kind" and len(told.get("description", "")) < 8
    ]
    assert silent == []
    assert len(list(parts_of(schema))) > 100


def test_every_part_refuses_fields_that_it_does_not_have(schema: dict[str, Any], validator: Any) -> None:
    open_ = [name for name, part in parts_of(schema) if part.get("additionalProperties") is not False]
    assert open_ == ["Metric"], "a metric of one's own takes its function's arguments"
    with pytest.raises(jsonschema.ValidationError, match="learning_rate"):
        validator.validate({**SMALLEST, "learning_rate": 0.1})
    with pytest.raises(ScenarioError, match="learning_rate: is no field"):
        Scenario.read({**SMALLEST, "learning_rate": 0.1})


def test_the_protocol_and_its_rounds_are_all_that_is_required(schema: dict[str, Any], validator: Any) -> None:
    assert schema["required"] == ["protocol"]
    validator.validate(SMALLEST)
    Scenario.read(SMALLEST)
    for wanting in ({}, {"protocol": {"kind": "sync"}}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(wanting)
        with pytest.raises(ScenarioError, match="required"):
            Scenario.read(wanting)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_schema_accepts_the_scenarios_that_the_program_accepts(validator: Any, name: str) -> None:
    validator.validate(json.loads(json.dumps(EXAMPLES[name])))


@pytest.mark.parametrize(
    "wrong",
    [
        {"training": {"lr": "fast"}},
        {"training": {"lr": -1}},
        {"data": {"clients": 0}},
        {"protocol": {"kind": "sunc", "rounds": 3}},
        {"model": {"kind": "mlp", "hidden": "wide"}},
        {"privacy": {"kind": "nbafl", "epsilon": 0}},
        {"world": {"dropout": 1.5}},
    ],
    ids=str,
)
def test_schema_and_program_refuse_the_same_values(validator: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**SMALLEST, **wrong})
    with pytest.raises(ScenarioError):
        Scenario.read({**SMALLEST, **wrong})


def test_defaults_change_only_on_purpose() -> None:
    """Whoever leaves these out gets what stands here; results change with each of them."""
    scenario = Scenario.read({"protocol": {"kind": "buffered", "rounds": 3}})
    data, training, protocol = scenario.data, scenario.training, scenario.protocol
    assert (data.dataset, data.clients, data.samples_per_client, data.partition.kind) == ("mnist", 50, 100, "iid")
    assert type(data).model_fields["source"].default == "auto", "files of the data set where they are, else stand-ins"
    assert (scenario.model.kind, scenario.model.hidden) == ("mlp", (256,))
    assert (training.lr, training.batch_size, training.epochs, training.momentum) == (0.01, 32, 1, 0.0)
    assert (training.gradient_clip, training.proximal_mu) == (None, 0.0)
    assert (protocol.buffer, protocol.dispatch.kind, protocol.dispatch.in_flight, protocol.late) == (
        *(10, "constant", 20, "carry"),
    )
    assert (protocol.staleness.kind, protocol.staleness.exponent, protocol.server_rate) == ("polynomial", 0.5, 1.0)
    assert (scenario.privacy.kind, scenario.threats, scenario.defence.rule.kind) == ("none", None, "mean")
    assert (scenario.world.uplink.latency_s.expected(), scenario.world.uplink.bandwidth_bps.expected()) == (
        0.0,
        math.inf,
    )
    assert scenario.world.uplink.retransmissions == 3
    assert (scenario.world.failure_detection.kind, scenario.world.failure_detection.seconds) == ("lease", 30.0)
    assert scenario.seeds == (0,)


def test_defaults_of_schemes_detectors_and_limits_change_only_on_purpose() -> None:
    scenario = Scenario.read(
        {
            "protocol": {"kind": "buffered", "rounds": 3},
            "privacy": {"kind": "nbafl", "epsilon": 5},
            "defence": {"detector": {"kind": "safl"}, "strikes": {}},
            "threats": {"attack": {"kind": "sign_flip"}, "attackers": 1},
        }
    )
    privacy, defence, threats = scenario.privacy, scenario.defence, scenario.threats
    assert (privacy.delta, privacy.exposures, privacy.clip_norm, privacy.sensitivity) == (0.01, 1, "median", "2C/m")
    assert (defence.detector.decoys, defence.detector.evaluators_tried, defence.strikes.threshold) == (3, 3, 2)
    assert threats is not None
    assert threats.attackers_add_noise
    assert Scenario.read(SMALLEST).protocol.open.kind == "all"
    assert (Limits().hours, Limits().gib) == (2.0, 16.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("training.lr", math.inf),
        ("training.momentum", math.inf),
        ("training.gradient_clip", math.nan),
        ("world.uplink.latency_s", math.inf),
        ("world.dropout", math.nan),
        ("world.aggregate_s", math.inf),
        ("world.failure_detection.seconds", math.nan),
        ("protocol.server_rate", math.inf),
        ("protocol.time_limit_s", math.nan),
        ("privacy.epsilon", math.nan),
        ("privacy.delta", math.inf),
        ("privacy.clip_norm", math.inf),
    ],
)
def test_numbers_that_are_computed_with_must_be_finite(field: str, value: float) -> None:
    scenario = Scenario.read({**SMALLEST, "privacy": {"kind": "nbafl", "epsilon": 5}})
    with pytest.raises(ScenarioError, match=field.replace(".", r"\.")):
        scenario.override({field: value})


def test_infinity_is_a_value_where_it_has_a_meaning() -> None:
    scenario = Scenario.read({**SMALLEST, "privacy": {"kind": "nbafl", "epsilon": 5}})
    assert scenario.override({"privacy.epsilon": math.inf}).privacy.off
    assert scenario.override({"world.uplink.bandwidth_bps": math.inf}).digest() == scenario.digest(), "no limit"
