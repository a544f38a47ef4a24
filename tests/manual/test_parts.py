"""Every component is reached from the scenario, and every field and component has the facts that a reader needs."""

import pytest

from asyncfl.base.component import Component
from asyncfl.base.tables import (
    FAMILIES,
    ClientsTable,
    EpsilonColumns,
    FairnessColumns,
    FurtherClientsColumns,
    LedgerTable,
    RoundsTable,
    UploadEpsilonColumns,
    columns_of,
)
from asyncfl.manual.explanation import find
from asyncfl.manual.parts import all_parts, components, places_of
from asyncfl.protocol.events import Kind
from asyncfl.world.distributions import Lognormal


def test_every_component_that_derives_from_a_base_is_reached() -> None:
    known = {part.model for part in all_parts()}
    waiting, built_in = [Component], set()
    while waiting:
        for below in waiting.pop().__subclasses__():
            waiting.append(below)
            kind = below.model_fields.get("kind")
            # Classes in live/ and stress/ stand in for others' data and for attackers of trials, without a kind; other
            # tests name their own classes as if they were of testing/.
            rooms = ("asyncfl.extras.", "asyncfl.testing.")
            ours = below.__module__.startswith("asyncfl.") and not below.__module__.startswith(rooms)
            if ours and kind is not None and not kind.is_required():
                built_in.add(below)
    # No scenario names OpenCount, which `protocol.buffer` becomes.
    assert [one.__name__ for one in built_in - known] == ["OpenCount"]


def test_every_number_has_a_unit() -> None:
    fields = [field for part in all_parts() for field in part.fields]
    number = ("number", "whole number", "list of numbers", "list of whole numbers")
    assert [one.path for one in fields if one.type_words.startswith(number) and not (one.unit or one.parts)] == []


def test_every_algorithm_has_a_source() -> None:
    definitions = ("data.dataset", "world.", "model.linear", "compression.none", "privacy.none")
    asked = [part for part in components() if not part.path.startswith(definitions)]
    assert len(asked) > 60
    assert [part.path for part in asked if not part.source] == []


def test_every_component_names_columns_and_events_that_exist() -> None:
    columns = {
        "rounds": columns_of(RoundsTable, FairnessColumns, UploadEpsilonColumns, EpsilonColumns),
        "clients": columns_of(ClientsTable, FurtherClientsColumns),
        "ledger": columns_of(LedgerTable),
        "events": list(Kind),
        "summary": ("notes", "data", "fates", "tasks"),
    }
    known = {f"{table}.{name}" for table, names in columns.items() for name in names}
    families = tuple(f"rounds.{prefix}" for prefix in FAMILIES)
    named = {part.path: part.logged for part in components()}
    assert [path for path, names in named.items() if not names] == []
    assert {name for names in named.values() for name in names if not name.startswith(families)} - known == set()


def test_a_component_stands_at_all_its_places() -> None:
    assert "world.downlink.latency_s" in places_of(Lognormal)
    assert len({part.path for part in components()}) == len(components())


@pytest.mark.parametrize(
    ("name", "type_words", "unit", "limits", "default"),
    [
        ("training.batch_size", "whole number or full", "samples", ">= 1", "32"),
        ("training.deadline_s", "number or null", "s", "> 0", "null"),
        ("seeds", "whole number or list of whole numbers", "seeds", ">= 0", "[0]"),
        ("model.mlp.hidden", "list of whole numbers", "units", ">= 1, <= 1,000,000", "[256]"),
        ("evaluation.metrics", "mapping of names to components", "", "", "{}"),
        ("threats.attack.scaling.factor", "replacement or number", "factor", "> 0", "10"),
        ("world.uplink.bandwidth_bps", "number or list of numbers or kind fixed, uniform, exponential, lognormal, "
         "pareto, listed, my_module:MyClass", "bit/s", ">= 0", ".inf"),
    ],
)  # fmt: skip
def test_a_field_has_its_facts_in_words(name: str, type_words: str, unit: str, limits: str, default: str) -> None:
    (field,) = find(name)
    assert (field.type_words, field.unit, field.range, field.default) == (type_words, unit, limits, default)
