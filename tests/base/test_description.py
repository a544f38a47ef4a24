from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from asyncfl.base.component import Described
from asyncfl.base.description import differing_fields, faults_of, fields_of, override, sound_parts
from asyncfl.base.errors import Fault
from asyncfl.data.own.table import TableFile
from asyncfl.learning import Training
from asyncfl.privacy import AnyScheme
from asyncfl.scenario import Scenario
from asyncfl.threats.composite import Combined
from asyncfl.threats.label_flip import LabelFlip
from asyncfl.world.devices import UniformDevice


class Owner(Described):
    """Something with a choice in it."""

    part: AnyScheme


NBAFL = {"kind": "nbafl", "epsilon": 6}


def told(model: type[BaseModel], description: dict[str, Any]) -> list[Fault]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(description)
    return faults_of(caught.value, model, description)


def test_dotted_names_reach_into_mappings() -> None:
    description = {"a": {"b": 1, "c": 2}, "d": None}
    override(description, {"a.b": 5, "d.e.f": 6}, Owner)
    assert description == {"a": {"b": 5, "c": 2}, "d": {"e": {"f": 6}}}


@given(st.permutations(["part.kind", "part.clip_norm", "part.stop_at.epsilon"]))
def test_another_kind_keeps_the_fields_that_it_has_whatever_the_order(names: list[str]) -> None:
    description = {"part": {"kind": "nbafl", "epsilon": 6, "exposures": 2, "stop_at": {"adversary": "server"}}}
    values = {"part.kind": "dp_fedavg", "part.clip_norm": 2, "part.stop_at.epsilon": 3}
    override(description, {name: values[name] for name in names}, Owner)
    kept = {"stop_at": {"adversary": "server", "epsilon": 3}}
    assert description == {"part": {"kind": "dp_fedavg", "clip_norm": 2, **kept}}


def test_a_kind_of_the_users_own_starts_afresh() -> None:
    description = {"part": dict(NBAFL)}
    override(description, {"part.kind": "my_module:Mine"}, Owner)
    assert description == {"part": {"kind": "my_module:Mine"}}


def test_the_same_kind_keeps_its_fields() -> None:
    description = {"part": {"kind": "nbafl", "left": 1}}
    override(description, {"part.kind": "nbafl"}, Owner)
    assert description == {"part": {"kind": "nbafl", "left": 1}}


@pytest.mark.parametrize(
    ("part", "field", "message"),
    [
        # A rule about several fields names what came, and nothing is said twice.
        ({"kind": "mechanisms"}, "", "client or server must be given: without both there is no mechanism"),
        ({"kind": "mechanisms", "client": {"kind": "laplace", "epsilon": 1}, "clip": {"target": "gradient"}}, "",
         "client: laplace (sensitivity_from: l1) needs a clip in L1, which clip.target: gradient does not give: "
         "gradients are clipped in L2; use clip.target: update or model"),
        ({"kind": "nowhere_to_be_found:Scheme"}, "",
         "cannot import 'nowhere_to_be_found': No module named 'nowhere_to_be_found'; name its folder in PYTHONPATH"),
        ({"kind": 3}, "", "kind must be one of none, nbafl, local_gaussian, mechanisms, dp_fedavg, dp_ftrl, dp_sgd, "
         "adaptive or my_module:MyClass, got 3"),
        # A description where a plain value stands, and the other way round.
        ({"kind": "local_gaussian", "epsilon": 6, "stop_at": 8}, "stop_at",
         "must be a mapping with the fields epsilon, delta, accountant, adversary, of, got 8"),
        ({"kind": "nbafl", "epsilon": {"value": 6}}, "epsilon", "must be a valid number, got a mapping"),
        ({"kind": "nbafl", "epsilon": 6, "exposures": "measured"}, "exposures", "must be a valid integer or a mapping "
         "with a kind (share, measured), got 'measured'; did you mean {kind: measured}?"),
        ({"kind": "mechanisms", "client": "gausian"}, "client",
         "must be a mapping with a kind (gaussian, laplace), got 'gausian'; did you mean {kind: gaussian}?"),
        ({"kind": "mechanisms", "client": {"epsilon": 1}}, "client",
         "must be a mapping with a kind (gaussian, laplace), got one without"),
        # Simple fields say what came.
        ({"kind": "nbafl", "epsilon": -6}, "epsilon", "must be greater than 0, got -6"),
        ({"kind": "nbafl", "epsilon": 1e-200}, "epsilon", "must be 1e-100..1e+100, or .inf, got 1e-200"),
        ({"kind": "adaptive", "budgets": []}, "budgets", "must list at least 1, got 0"),
        ({"kind": "nbafl", "epsilon": 6, "exposures": 1e300}, "exposures",
         "must be a smaller whole number or a mapping with a kind (share, measured), got 1e+300"),
    ],
)  # fmt: skip
def test_a_fault_says_once_what_came_and_dumps_no_description(part: dict[str, Any], field: str, message: str) -> None:
    (fault,) = told(Owner, {"part": part})
    assert (fault.field, fault.message) == (f"part.{field}".rstrip("."), message)


def test_a_field_may_have_the_name_of_the_kind_it_belongs_to() -> None:
    exposures = {"kind": "share", "share": 3, "of": "clients"}
    found = {fault.field: fault.message for fault in told(Owner, {"part": {**NBAFL, "exposures": exposures}})}
    assert found == {
        "part.exposures.share": "must be less than or equal to 1, got 3",
        "part.exposures.of": "must be 'rounds' or 'participations', got 'clients'",
    }


def test_items_that_are_faults_are_not_also_too_few() -> None:
    found = told(Owner, {"part": {"kind": "adaptive", "budgets": ["a", -1]}})
    assert [(fault.field, fault.message) for fault in found] == [
        ("part.budgets.0", "must be a valid number, got 'a'"),
        ("part.budgets.1", "must be greater than 0, got -1"),
    ]


def test_faults_of_list_items_follow_their_kinds() -> None:
    attacks = ["sign_flip", {"kind": "scaling", "factr": 2}]
    found = {fault.field: fault.message for fault in told(Combined, {"attacks": attacks})}
    assert found["attacks.0"].endswith("got 'sign_flip'; did you mean {kind: sign_flip}?")
    assert found["attacks.1.factr"] == "is no field of kind scaling; did you mean factor?"


@pytest.mark.parametrize(
    ("model", "described", "message"),
    [
        (UniformDevice, {"low_s_per_sample": 3, "high_s_per_sample": 1},
         "low_s_per_sample must be <= high_s_per_sample (1), got 3"),
        (LabelFlip, {"source_class": 3, "target_class": 3},
         "target_class must differ from source_class, got 3 for both"),
        (Training, {"epochs": None}, "must be a valid integer, got null"),
        (Training, {"batch_size": "ful"}, "must be a valid integer, or must be 'full', got 'ful'"),
        (Training, {"lr": "9" * 5000}, f"must be a valid number, got '{'9' * 66}...{'9' * 9}'"),
    ],
)  # fmt: skip
def test_rules_about_several_fields_and_several_findings_say_what_came_once_and_shortened(
    model: type[BaseModel], described: dict[str, Any], message: str
) -> None:
    (fault,) = told(model, described)
    assert fault.message == message


def test_long_names_of_fields_are_shortened() -> None:
    (fault,) = told(Training, {"x" * 5000: 1})
    assert len(str(fault)) < 400


def test_nested_fields_have_dotted_names() -> None:
    assert fields_of({"a": {"b": 1, "c": {}}, "d": [2], 3: None}) == {"a.b": 1, "a.c": {}, "d": [2], "3": None}
    assert fields_of(7, "x") == {"x": 7}


def test_fields_that_differ_come_with_both_values() -> None:
    one = {"a": {"b": 1, "c": 2}, "d": {"e": 3}, "f": 4}
    other = {"a": {"b": 1, "c": 5}, "d": 6, "g": 7}
    apart = {"a.c": [2, 5], "d.e": [3, None], "d": [None, 6], "f": [4, None], "g": [None, 7]}
    assert differing_fields(one, other) == apart
    assert differing_fields(one, one) == {}
    assert differing_fields({}, {}, {"a": {"b": 1}})["a.b"] == [None, None, 1]


class Sorts(Described):
    number: Annotated[int, Field(ge=1)]
    named: dict[str, int] = Field(default_factory=lambda: {"a": 1})
    plain: float = 0.5
    other: Annotated[float, Field(le=1)] = 0.25


def test_parts_that_are_sound_are_read_and_those_left_out_have_their_defaults() -> None:
    assert sound_parts(Sorts, {}) == {"named": {"a": 1}, "plain": 0.5, "other": 0.25}
    described = {"number": 0, "named": {"b": 2}, "plain": "no", "other": 1}
    assert sound_parts(Sorts, described) == {"named": {"b": 2}, "other": 1.0}
    assert sound_parts(Sorts, {"number": 1, "other": 1.5}) == {"number": 1, "named": {"a": 1}, "plain": 0.5}


def test_a_field_below_a_default_keeps_the_kind_of_the_default() -> None:
    described: dict[str, Any] = {"protocol": {"kind": "fedbuff", "rounds": 2}, "world": {}}
    changes = {"world.device.s_per_sample": 0.5, "protocol.dispatch.in_flight": 7, "training.lr": 0.2}
    override(described, changes, Scenario)
    assert described == {
        "protocol": {"kind": "fedbuff", "rounds": 2, "dispatch": {"kind": "constant", "in_flight": 7}},
        "world": {"device": {"kind": "fixed", "s_per_sample": 0.5}},
        "training": {"lr": 0.2},
    }


@pytest.mark.parametrize(
    ("came", "told_as"),
    [
        (False, "false; quote it, YAML reads no, off, yes and on as false and true"),
        (True, "true; quote it, YAML reads no, off, yes and on as false and true"),
        (7, "7; quote it"),
        (None, "null"),
    ],
)
def test_text_that_yaml_reads_as_something_else_is_to_be_quoted(came: object, told_as: str) -> None:
    table = {"kind": "table", "path": "patients.csv", "target": "ill", "without": ["age", came]}
    faults = told(TableFile, table)
    assert [(fault.field, fault.message) for fault in faults] == [("without.1", f"must be text, got {told_as}")]


def test_what_a_new_kind_does_not_have_is_named(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text("{protocol: {kind: buffered, rounds: 4, buffer: 5}, data: {dataset: mnist, source: embedded}}")
    changed = Scenario.load(file, {"protocol.kind": "sync"})
    assert changed.protocol.kind == "sync"
    assert caplog.messages == ["protocol.kind=sync has no protocol.buffer: left out"]
    caplog.clear()
    Scenario.load(file, {"protocol.rounds": 3, "protocol.buffer": 2})
    assert caplog.messages == []


def test_changes_within_a_change_leave_what_was_given_alone() -> None:
    """A grid overrides many scenarios with parts of one description: what one cell changes is not the next one's."""
    stop = {"kind": "adaptive", "budgets": [5.0], "stop_at": {"epsilon": 133.1, "adversary": "server"}}
    changes = {"privacy": stop, "privacy.stop_at.epsilon": 77.4, "privacy.budgets": [6.0]}
    description: dict[str, Any] = {}
    override(description, changes, Scenario)
    assert (description["privacy"]["stop_at"]["epsilon"], description["privacy"]["budgets"]) == (77.4, [6.0])
    assert (stop["stop_at"], stop["budgets"]) == ({"epsilon": 133.1, "adversary": "server"}, [5.0])
