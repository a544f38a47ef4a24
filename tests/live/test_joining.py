"""Clients with samples of their own: the scenario that they accept, and what a server without samples keeps."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.data.client_file import ClientFile
from asyncfl.federation.prepare import prepare, resolve
from asyncfl.live.agreement import DisagreementError
from asyncfl.live.joining import Agreement, load_agreed, read_scenario, set_up, without_samples
from asyncfl.live.task_runner import ClientSetup
from asyncfl.live.wire import Welcome
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.world import World
from tests.live.conftest import SMALL

NOISED: dict[str, Any] = {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}}
STOPPED: dict[str, Any] = {"privacy": {**NOISED["privacy"], "stop_at": {"epsilon": 50.0}}}
PERSONAL: dict[str, Any] = {"model": {**SMALL["model"], "personal": ["3.*"]}}


def welcome(scenario: str, **changes: Any) -> Welcome:
    told = {"client": 2, "run": "r", "seed": 0, "clients": 6, "smallest_samples": 20, "exposures": 3, "shape": False}
    told |= {"speedup": 1.0, "now_s": -1.0, "gone": (), "scenario": scenario}
    return Welcome(**{**told, **changes})


def joined(
    folder: Path, description: dict[str, Any], samples: int = 25, **changes: Any
) -> tuple[ClientSetup, list[str]]:
    """What a client has once it was let in, and what it was told."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "own.npz", x_train=np.zeros((samples, 28, 28), np.uint8), y_train=np.arange(samples) % 10)
    told: list[str] = []
    text = Scenario.read({**SMALL, **description}).to_yaml()
    with ThreadPoolExecutor(1) as executor:
        own, agreed = ClientFile(folder / "own.npz"), Agreement(shape=changes.get("shape", False))
        return set_up(welcome(text, **changes), own, agreed, executor, told.append), told


@pytest.mark.parametrize(
    ("description", "shape", "parts"),
    [
        # 784 * 4 + 4 of the hidden layer, 4 * 10 + 10 of the last.
        (NOISED, False, ("3190 parameters", "noise of dp_fedavg", "a secret of this machine")),
        (NOISED, True, ("3190 parameters", "noise of dp_fedavg", "a secret of this machine")),
        (PERSONAL, False, ("3140 parameters and 50 that stay here", "no noise", "a secret of this machine")),
    ],
)
def test_the_user_is_told_what_leaves_the_machine_and_where_noise_comes_from(
    tmp_path: Path, description: dict[str, Any], shape: bool, parts: tuple[str, ...]
) -> None:
    craft, [told] = joined(tmp_path, description, shape=shape)
    assert all(part in told for part in parts)
    assert craft.number == 2
    assert (craft.world is not None) == shape


def test_a_budget_counts_the_clients_own_samples_and_the_servers_fewest(tmp_path: Path) -> None:
    assert joined(tmp_path, NOISED)[0].budgets is None
    budgets = joined(tmp_path, STOPPED, 31)[0].budgets
    assert budgets is not None
    assert budgets.stop_at.epsilon == 50.0
    assert budgets.samples.tolist() == [0, 0, 31, 0, 0, 0]
    assert budgets.context.smallest_samples == 20
    assert budgets.context.clients == 6


@pytest.mark.parametrize("tap", [{"uplink": False}, {"uplink": True, "packet_loss": 0.25}])
def test_a_real_client_takes_over_the_tap_of_a_world_and_nothing_else(tap: dict[str, Any]) -> None:
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
def test_a_server_cannot_make_a_client_import_a_class(named: str, is_class: bool, around: str) -> None:
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


def test_a_client_takes_part_in_the_scenario_it_agreed_to_and_no_other(tmp_path: Path) -> None:
    local = {"kind": "local_gaussian", "epsilon": 5.0}
    agreed = Scenario.read({**SMALL, "privacy": local, "training": {**SMALL["training"], "gradient_clip": 1.0}})
    (tmp_path / "agreed.yaml").write_text(agreed.to_yaml().replace("source: embedded", "source: auto"))
    own = load_agreed(tmp_path / "agreed.yaml")
    exposures = own.privacy.assumed_exposures(6, 6, 3)
    assert isinstance(exposures, int)
    told = welcome(agreed.to_yaml(), exposures=exposures)
    assert read_scenario(told, own).privacy == own.privacy
    other = agreed.override({"privacy.epsilon": 500.0})
    with pytest.raises(DisagreementError, match=r"not the one agreed to: privacy.epsilon is 500.0, here 5.0"):
        read_scenario(welcome(other.to_yaml(), exposures=exposures), own)
    with pytest.raises(DisagreementError, match=r"noise is calibrated to 77 exposures, here"):
        read_scenario(welcome(agreed.to_yaml(), exposures=77), own)


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        ("\nnovel: 3\n", {}, r"the server's scenario \(it may have another version of asyncfl\).*novel"),
        (None, {}, "must be a mapping"),
        ("", {"clients": 7}, "has 6 clients, it speaks of 7"),
    ],
)
def test_a_scenario_that_cannot_be_understood_is_refused(change: str | None, more: dict[str, Any], why: str) -> None:
    text = "[]" if change is None else Scenario.read(SMALL).to_yaml() + change
    with pytest.raises((DisagreementError, ScenarioError), match=why):
        read_scenario(welcome(text, **more), None)


def test_a_server_without_samples_keeps_the_test_set_and_the_noise_calibration() -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}
    whole = prepare(resolve(Scenario.read({**SMALL, "privacy": privacy}), 0, SimulatedRuns()))
    tested, known = whole.data.test_labels, whole.path.context
    assert known.equal_weights
    kept = without_samples(whole)
    assert (len(kept.data.images), len(kept.data.labels), kept.data.canaries) == (0, 0, None)
    assert kept.data.sizes.tolist() == [0] * 6
    assert kept.data.test_labels is tested
    assert (kept.path, kept.path.data) == (whole.path, kept.data)
    context = kept.path.context
    assert (context.clients, context.smallest_samples, context.equal_weights) == (6, known.smallest_samples, False)
    assert kept.path.state.clip_norm(np.ones(1)) == 2.0
