"""`asyncfl explain` and its JSON, of a component whose fields are of several sorts, and of experiments with it."""

from collections.abc import Iterator
from unittest import mock

import pytest

from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual import text
from asyncfl.manual.measured import ClaimSaid, Experimented
from asyncfl.manual.parts import Part
from asyncfl.manual.text import explained, facts
from asyncfl.manual.verdicts import Kept
from tests.manual.own_rule import Slowing

PART = Part(Slowing, "protocol.staleness", "protocol.buffered.staleness", "my_rules:Slowing")
SOURCE = "Somebody et al. 2020, section 4, equation 3"
CLAIMS = (
    ClaimSaid("Slowing is well", "holds", "", "holds", "by [0.4, 0.6] (full scale, 5 seeds)"),
    ClaimSaid("Slowing falls", "fails", "it rises", "does not hold", "0.1 (a formula)"),
    ClaimSaid("another thing", "holds"),
)


@pytest.fixture(autouse=True)
def _experiments() -> Iterator[None]:
    """One of three experiments uses the component."""
    used = Experimented("own/all", "All of it", "ours", CLAIMS, frozenset({Slowing}))
    others = [Experimented(name, "Other", "ours", CLAIMS[2:], frozenset()) for name in ("a", "b")]
    with mock.patch.multiple(text, remembered=lambda: [used, *others], kept=lambda: Kept("2020-02-02", {})):
        yield


def lines() -> list[str]:
    return [line.strip() for line in explained(PART, 80).splitlines()]


def test_explain_shows_the_facts_of_a_component() -> None:
    told = lines()
    assert told[0] == "protocol.buffered.staleness.my_rules:Slowing"
    assert {"Weights updates by their age and a wait.", "Use it where clients are slow."} <= set(told)
    assert {"s(tau) = 1 / (1 + tau)", f"source    {SOURCE}"} <= set(told)
    assert "class     tests.manual.own_rule.Slowing" in told
    assert any(line.startswith("logged") and "rounds.staleness_mean" in line for line in told)


def test_explain_shows_type_range_unit_and_default_of_each_field() -> None:
    told = lines()
    for name, about, words in (
        ("wait_s", "number; > 0, <= 1,000,000; s; must be given", "Time after which an update counts half"),
        ("clients", "whole number or null; >= 1; clients; default null", "Clients that count; null: all"),
        ("shape", "soft | hard; default soft", "Shape of the weight"),
    ):
        assert told[told.index(name) + 1 : told.index(name) + 3] == [about, words]


def test_explain_shows_the_measured_claims_of_a_component() -> None:
    told = lines()
    assert any(line.startswith("Measured (2020-02-02") for line in told)
    assert "own/all  3 claims: 1 holds, 1 does not hold, 1 was not run" in told
    assert "holds: Slowing is well: by [0.4, 0.6] (full scale, 5 seeds)" in told
    assert "does not hold: Slowing falls: 0.1 (a formula)" in told
    assert "another thing" not in " ".join(told), "a claim that does not name the component"


def test_the_example_can_be_pasted_and_the_command_sets_the_same() -> None:
    whole = explained(PART, 80)
    yaml, _, command = whole.partition("Example\n")[2].partition("  asyncfl run")
    rule = {"kind": "my_rules:Slowing", "wait_s": 2.5}
    assert read_text(yaml) == {"protocol": {"kind": "buffered", "rounds": 20, "staleness": rule}}
    assert "--set protocol.staleness.wait_s=2.5" in command


def test_explain_shows_the_parts_below_a_field() -> None:
    (depth,) = [field for field in PART.fields if field.name == "depth"]
    told = explained(depth, 80)
    assert told.startswith("protocol.buffered.staleness.my_rules:Slowing.depth\n\nA section within.\n")
    assert "  layers\n      whole number; >= 1; layers; default 2\n      Layers that are compared\n" in told


def test_json_has_the_same_facts() -> None:
    told = facts(PART)
    assert (told["source"], told["class"]) == (SOURCE, "tests.manual.own_rule.Slowing")
    assert [field["name"].rpartition(".")[2] for field in told["fields"]] == ["wait_s", "clients", "shape", "depth"]
    wait = told["fields"][0]
    assert [wait[key] for key in ("type", "unit", "range", "default")] == ["number", "s", "> 0, <= 1,000,000", ""]
    assert [row["verdict"] for row in told["measured"]] == ["holds", "does not hold"]
