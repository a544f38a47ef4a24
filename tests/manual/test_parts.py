"""Every field and component says what a reader asks: no list of them is kept by hand."""

from asyncfl.base.component import Component
from asyncfl.manual.parts import all_parts, components, places_of
from asyncfl.manual.words import is_number
from asyncfl.world.distributions import Lognormal


def test_every_component_that_derives_from_a_base_is_reached() -> None:
    known = {part.model for part in all_parts()}
    waiting, built_in = [Component], set()
    while waiting:
        for below in waiting.pop().__subclasses__():
            waiting.append(below)
            kind = below.model_fields.get("kind")
            # What live/ and testing/ define stands in for others' data and for attackers of trials, without a name.
            rooms = ("asyncfl.live.", "asyncfl.testing.")
            ours = below.__module__.startswith("asyncfl.") and not below.__module__.startswith(rooms)
            if ours and kind is not None and not kind.is_required():
                built_in.add(below)
    # No scenario names OpenCount: it is what `protocol.buffer` comes to.
    assert [f"{one.__module__}.{one.__name__}" for one in built_in - known] == [
        "asyncfl.server.buffer_opening.OpenCount"
    ]


def test_every_number_has_a_unit() -> None:
    fields = [field for part in all_parts() for field in part.fields]
    assert [field.path for field in fields if is_number(field.info) and not field.unit] == []


def test_a_component_stands_at_all_its_places() -> None:
    assert "world.downlink.latency_s" in places_of(Lognormal)
    assert len({part.path for part in components()}) == len(components())
