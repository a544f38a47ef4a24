"""What a client is at: its phases where nothing is simulated, and what it tells of itself."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.phases import Phase
from asyncfl.federation.workload import workload_of
from asyncfl.learning.deadline import NoEpochError
from asyncfl.live.errands import At, Craft
from asyncfl.live.vocabulary import Judge, Task
from asyncfl.scenario import Scenario
from asyncfl.streams import Streams
from asyncfl.threats import Threats
from asyncfl.trace import Kind
from asyncfl.world import Transfer
from tests.live.conftest import SMALL


def test_in_the_real_world_everything_takes_as_long_as_it_takes() -> None:
    nothing: Any = None
    load: Any = SimpleNamespace(download_bytes=777, upload_bytes=999)
    craft = Craft(3, nothing, nothing, load, None, None, None, nothing)
    phases, needed = zip(*craft.phases(nothing), strict=True)
    assert [one.begins for one in phases] == [Kind.DOWNLOAD_STARTED, Kind.TRAINING_STARTED, Kind.UPLOAD_STARTED]
    assert [one.ends for one in phases] == [Kind.DOWNLOADED, Kind.TRAINED, Kind.UPLOADED]
    assert [one.duration_s for one in phases] == [0.0, 0.0, 0.0]
    assert needed == (True, True, True)
    assert [one.sending and one.sending.way for one in phases] == ["down", None, "up"]
    assert [one.duration_s for one in craft.scoring_phases(nothing, 5)] == [0.0]
    fetched, sent = (phases[place].sending for place in (0, 2))
    assert fetched is not None
    assert sent is not None
    assert (fetched.transfer.sent_bytes, fetched.transfer.payload_bytes) == (777, 777)
    assert sent.transfer == Transfer(
        duration_s=0.0,
        delivered=True,
        attempts=1,
        packets=1,
        packets_sent=1,
        packets_lost=0,
        sent_bytes=999,
        overheard_s=math.inf,
        resent_at_s=(),
        resent_bytes=(),
        payload_bytes=999,
        packet_s=0.0,
    )


def test_what_has_not_happened_yet_is_not_told() -> None:
    at = At(4, began_s=10.0)
    at.note(12.0, "later", 5)
    at.note(11.0, "sooner", attempt=2, detail="why")
    at.note(9.0, "before it began")
    assert [(one.after_s, one.kind, one.size, one.attempt, one.detail) for one in at.report(12.0)] == [
        (0.0, "before it began", -1, -1, ""),
        (1.0, "sooner", -1, 2, "why"),
        (2.0, "later", 5, -1, ""),
    ]
    assert [one.kind for one in at.report(11.5)] == ["before it began", "sooner"]


LOST = {"loss": {"kind": "independent", "probability": 1.0}, "retransmissions": 0}


def simulated(world: dict[str, Any], own: bool, threats: Threats | None = None, **training: Any) -> Craft:
    """Client 3 of a world where a sample takes .25 s and nothing else any time; it has 20 of them."""
    nothing: Any = None
    device = {"kind": "fixed", "s_per_sample": 0.25}
    protocol = {**SMALL["protocol"], "time_limit_s": 100.0}
    scenario = Scenario.read({**SMALL, "protocol": protocol, "world": {"device": device, **world}})
    scenario = scenario.model_copy(update={"training": scenario.training.model_copy(update=training)})
    sizes = np.full(6, 20)
    shop: Any = SimpleNamespace(personal=object() if own else None)
    begun = scenario.world.start(6, Streams(0), sizes)
    return Craft(3, shop, nothing, workload_of(scenario, sizes), begun, threats, None, nothing)


@pytest.mark.parametrize(
    ("world", "own", "ends", "needed"),
    [
        ({}, False, ["downloaded", "trained", "uploaded"], True),
        ({"uplink": LOST}, False, ["downloaded", "trained", "lost"], False),
        ({"uplink": LOST}, True, ["downloaded", "trained", "lost"], True),
        ({"downlink": LOST}, True, ["lost"], False),
        ({"dropout": 1.0}, True, ["downloaded", "dropped_out"], False),
    ],
)
def test_what_is_neither_sent_nor_kept_is_not_trained(
    world: dict[str, Any], own: bool, ends: list[str], needed: bool
) -> None:
    phases = simulated(world, own).phases(Task(0, 0, 0))
    assert [phase.ends.value for phase, _ in phases] == ends
    assert {each for _, each in phases} == {needed}


def test_a_request_for_scores_has_its_phases_where_a_world_shapes_them() -> None:
    phases = simulated({}, False).scoring_phases(Judge(0, 0), 3)
    assert [phase.name for phase in phases] == ["scoring down", "", "scoring up"]


def test_only_who_is_to_attack_is_as_fast_as_its_attack() -> None:
    threats = Threats.model_validate({"attackers": 1, "attack": {"kind": "flooding", "times": 4.0}})
    for named, attacks, seconds in ((threats, True, 1.25), (threats, False, 5.0), (None, True, 5.0)):
        craft = simulated({}, False, named)
        assert craft.phases(Task(0, 0, 0, attacks))[1][0].duration_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("shaped", "deadline_s", "outcome", "epochs", "ends", "detail"),
    [
        (False, 9.0, 2, 2, Kind.TRAINED, "2 of 3 epochs"),
        (False, 9.0, None, None, Kind.TRAINED, ""),
        (False, 9.0, NoEpochError(), None, Kind.DROPPED_OUT, "no epoch by its deadline"),
        (False, 9.0, ValueError(), None, Kind.TRAINED, ""),
        (False, None, 2, None, Kind.TRAINED, ""),
        (True, 9.0, 2, None, Kind.TRAINED, ""),
    ],
)
def test_by_its_own_clock_a_client_has_done_what_its_training_says(
    shaped: bool, deadline_s: float | None, outcome: Any, epochs: int | None, ends: Kind, detail: str
) -> None:
    async def main() -> None:
        training: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(outcome, Exception):
            training.set_exception(outcome)
        else:
            training.set_result(SimpleNamespace(epochs=outcome))
        craft = simulated({}, False, epochs=3, deadline_s=deadline_s)
        if not shaped:
            craft = Craft(3, craft.workshop, craft.executor, craft.load, None, None, None, craft.decoder)
        phase = Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 1.0)
        found = craft.measured(phase, training)
        assert (found.epochs, found.ends, found.detail) == (epochs, ends, detail)
        assert (found.fails is None) == (ends is Kind.TRAINED)

    asyncio.run(main())
