"""What a client with samples of its own makes of the scenario that it is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.data.client_file import ClientFile
from asyncfl.errors import DataError, ScenarioError
from asyncfl.live.errands import Craft
from asyncfl.live.joining import DisagreementError, Joining, read_scenario
from asyncfl.live.vocabulary import Welcome
from asyncfl.scenario import Scenario
from asyncfl.world import World
from tests.live.conftest import SMALL

NOISED: dict[str, Any] = {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}}
STOPPED: dict[str, Any] = {"privacy": {**NOISED["privacy"], "stop_at": {"epsilon": 50.0}}}
PERSONAL: dict[str, Any] = {"model": {**SMALL["model"], "personal": ["3.*"]}}


def welcome(scenario: str, **changes: Any) -> Welcome:
    told = {"client": 2, "run": "r", "seed": 0, "clients": 6, "smallest_samples": 20, "exposures": 3, "shape": False}
    told |= {"speedup": 1.0, "now_s": -1.0, "heartbeat_s": 5.0, "gone": (), "scenario": scenario}
    return Welcome(**{**told, **changes})


def joined(folder: Path, description: dict[str, Any], samples: int = 25, **changes: Any) -> tuple[Craft, list[str]]:
    """What a client has once it was let in, and what it was told."""
    folder.mkdir(exist_ok=True)
    np.savez(
        folder / "own.npz",
        x_train=np.zeros((samples, 28, 28), np.uint8),
        y_train=np.arange(samples) % 10,
    )
    told: list[str] = []
    text = Scenario.read({**SMALL, **description}).to_yaml()
    with ThreadPoolExecutor(1) as executor:
        return Joining(ClientFile(folder / "own.npz")).craft(welcome(text, **changes), executor, told.append), told


FIRST = "client 2 of 6, {} parameters{}, {}; all that is random is drawn from {}"
SECRET, KNOWN = "a secret of this machine", "the seed that the server knows"


@pytest.mark.parametrize(
    ("description", "shape", "first"),
    [
        # 784 * 4 + 4 of the hidden layer, 4 * 10 + 10 of the last.
        ({}, False, FIRST.format(3190, "", "no noise", SECRET)),
        (NOISED, False, FIRST.format(3190, "", "noise of dp_fedavg", SECRET)),
        (NOISED, True, FIRST.format(3190, "", "noise of dp_fedavg", KNOWN)),
        (PERSONAL, False, FIRST.format(3140, " and 50 that stay here", "no noise", SECRET)),
    ],
)
def test_it_is_told_which_federation_that_is(
    tmp_path: Path, description: dict[str, Any], shape: bool, first: str
) -> None:
    craft, told = joined(tmp_path, description, shape=shape)
    assert told == [first]
    assert craft.number == 2
    assert (craft.world is not None) == shape


@pytest.mark.parametrize(
    ("compression", "kept"),
    [
        ({"kind": "top_k", "share": 0.1}, True),
        ({"kind": "top_k", "share": 0.1, "error_feedback": False}, False),
        ({"kind": "quantised", "bits": 4}, False),
    ],
)
def test_it_is_told_where_compression_keeps_something_in_memory(
    tmp_path: Path, compression: dict[str, Any], kept: bool
) -> None:
    _, told = joined(tmp_path, {"compression": compression})
    lost = "what compression leaves out of an update is kept in memory for the next one: whoever starts this client "
    assert told[1:] == [lost + "again loses it"] * kept


def test_who_has_fewer_samples_than_noise_is_calibrated_to_goes_away(tmp_path: Path) -> None:
    with pytest.raises(DisagreementError) as caught:
        joined(tmp_path, NOISED, 19)
    assert str(caught.value) == "the server calibrates noise to clients of at least 20 samples, here are 19"
    joined(tmp_path, NOISED, 20)
    joined(tmp_path, {}, 19)


def test_a_clients_budget_is_counted_with_its_own_samples_and_the_servers_fewest(tmp_path: Path) -> None:
    assert joined(tmp_path, NOISED)[0].budgets is None
    budgets = joined(tmp_path, STOPPED, 31)[0].budgets
    assert budgets is not None
    assert budgets.stop_at.epsilon == 50.0
    assert budgets.samples.tolist() == [0, 0, 31, 0, 0, 0]
    assert budgets.context.smallest_samples == 20
    assert budgets.context.clients == 6


def test_what_a_task_takes_is_of_its_own_samples(tmp_path: Path) -> None:
    craft, _ = joined(tmp_path, {}, 31)
    # Model and message of 4 bytes a number.
    assert (craft.load.download_bytes, craft.load.upload_bytes) == (4 * 3190, 4 * 3190)
    assert len(craft.workshop._path().data.client(2)[1]) == 31


@pytest.mark.parametrize("tap", [{}, {"uplink": True, "packet_loss": 0.25}])
def test_of_a_world_that_is_not_here_only_matters_who_listens(tap: dict[str, Any]) -> None:
    world = {"device": {"kind": "fixed", "s_per_sample": 0.2}, "tap": tap}
    scenario = Scenario.read({**SMALL, "world": world})
    assert read_scenario(welcome(scenario.to_yaml()), None).world == World(tap=scenario.world.tap)
    assert read_scenario(welcome(scenario.to_yaml(), shape=True), None).world == scenario.world


@pytest.mark.parametrize(
    ("named", "is_class"),
    [
        ("os:System", True),
        ("a.b_2.c:D", True),
        ("a:b:c", False),
        ("a b:c", False),
        ("a.:c", False),
        ("http://a", False),
    ],
)
@pytest.mark.parametrize("around", ["{}", "[{}]", "{{deep: [x, {{er: {}}}]}}"])
def test_what_could_be_imported_is_found_wherever_it_stands(named: str, is_class: bool, around: str) -> None:
    text = Scenario.read(SMALL).to_yaml() + f"\nextra: {around.format(repr(named))}\n"
    with pytest.raises(DisagreementError if is_class else ScenarioError) as caught:
        read_scenario(welcome(text), None)
    if is_class:
        assert str(caught.value) == (
            f"the server's scenario names {named!r}, which a client imports only for a scenario that it knows; name "
            "your copy with --scenario"
        )
    else:
        assert "extra" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "least", "most", "fault"),
    [
        ((28, 28), 0, 9, None),
        ((28, 28), -1, 9, "y_train: must be labels 0..9 as the scenario's (mnist), got -1..9"),
        ((28, 28), 0, 10, "y_train: must be labels 0..9 as the scenario's (mnist), got 0..10"),
        ((27, 28), 0, 9, "x_train: must be images of shape (28, 28) as the scenario's (mnist), got (27, 28)"),
    ],
)
def test_samples_must_be_of_the_scenarios_kind(
    tmp_path: Path, shape: tuple[int, int], least: int, most: int, fault: str | None
) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, x_train=np.zeros((2, *shape), np.uint8), y_train=np.array([least, most]))
    data = Scenario.read(SMALL).data
    if fault is None:
        assert ClientFile(path).of_client(5, data).sizes.tolist() == [0, 0, 0, 0, 0, 2]
        return
    with pytest.raises(DataError) as caught:
        ClientFile(path).of_client(5, data)
    assert fault in str(caught.value)
