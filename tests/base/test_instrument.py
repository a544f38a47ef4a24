"""Instruments: their methods are called in the order of a run, which they do not change."""

from collections.abc import Callable
from typing import Any

import pytest

from asyncfl import Scenario, simulate
from asyncfl.base.instrument import Instrument, Instruments

MOMENTS = [name for name in vars(Instrument) if not name.startswith("_")]


class Listing(Instrument):
    """Instrument that stores the names of the moments at which it is called."""

    def __init__(self) -> None:
        self.moments: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in MOMENTS:
            return lambda *_: self.moments.append(name)
        return super().__getattribute__(name)


@pytest.fixture
def tiny_scenario(tiny: dict[str, Any]) -> Scenario:
    return Scenario.read({**tiny, "privacy": {"kind": "nbafl", "epsilon": 50}})


def test_the_moments_of_a_run_come_in_order(tiny_scenario: Scenario) -> None:
    listing = Listing()
    simulate(tiny_scenario, [listing])
    moments = [name for name in listing.moments if name != "progress"]
    version = ["collected", "aggregated", "published", "row", "so_far"]
    initial = ["begin", "begin_seed", "published", "row", "so_far"]
    assert moments == [*initial, *version * 3, "end_seed", "complete", "end", "close"]
    assert "progress" in listing.moments


def test_a_run_with_instruments_equals_one_without(tiny_scenario: Scenario) -> None:
    followed, alone = simulate(tiny_scenario, [Listing()]), simulate(tiny_scenario)
    assert all(
        followed.tables[name].to_pandas().equals(alone.tables[name].to_pandas()) for name in ("rounds", "ledger")
    )


def test_an_instrument_is_closed_after_an_exception(tiny_scenario: Scenario) -> None:
    listing = Listing()

    def fail(*_: object) -> None:
        raise OSError("no network")

    class Raising(Instrument):
        row = fail

    with pytest.raises(OSError, match="no network"):
        simulate(tiny_scenario, [Raising(), listing])
    assert listing.moments[-1] == "close"


@pytest.mark.parametrize("moment", MOMENTS)
def test_several_instruments_are_called_at_every_moment(moment: str) -> None:
    first, second = Listing(), Listing()
    call: Callable[..., object] = getattr(Instruments([first, second]), moment)
    arguments = getattr(Instrument, moment).__code__.co_argcount - 1
    assert call(*[None] * arguments) is None
    assert first.moments == second.moments == [moment]
