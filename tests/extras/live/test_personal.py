"""Layers that are the clients' own, in federations of real clients."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl import simulate
from asyncfl.base.errors import ScenarioError
from asyncfl.protocol.event_query import select
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live.conftest import SMALL, hold_seed
from tests.extras.live.test_identity import BUFFERED, FEDASYNC, LEAVING, LOSSY, SAFL, SYNC, WORLD, same

Live = Callable[..., SeedRun]
PERSONAL: dict[str, Any] = {
    "model": {**SMALL["model"], "personal": ["3.*"]},
    "evaluation": {"keep": {"every": 1}, "clients_every": 2},
}
LOSSY_UP: dict[str, Any] = {**WORLD, "uplink": {**WORLD["uplink"], **LOSSY, "retransmissions": 0}}
LEAVING_WORLD: dict[str, Any] = {**WORLD, **LEAVING, "failure_detection": {"kind": "lease", "seconds": 0.2}}


@pytest.mark.parametrize(
    "description",
    [
        {"protocol": SYNC, "world": WORLD},
        {
            "protocol": {**BUFFERED, "max_staleness": 1},
            "world": {**WORLD, "dropout": 0.2, "uplink": {**WORLD["uplink"], **LOSSY, "retransmissions": 0}},
            "privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.1},
        },
        {"protocol": FEDASYNC, "world": {**WORLD, **LEAVING, "failure_detection": {"kind": "lease", "seconds": 0.2}}},
        {**SAFL, "world": WORLD},
        # Layers change with each training, what compression leaves over with each upload alone.
        {"protocol": FEDASYNC, "world": LEAVING_WORLD, "compression": {"kind": "top_k", "share": 0.1}},
        {"protocol": BUFFERED, "world": LOSSY_UP, "compression": {"kind": "top_k", "share": 0.1}},
    ],
    ids=["sync", "lossy", "leaving", "scores", "compressed, leaving", "compressed, lossy"],
)
def test_personal_layers_are_those_of_the_simulation(live: Live, description: dict[str, Any]) -> None:
    description = {**description, **PERSONAL}
    told, simulated = same(live, description), simulate_seed(Scenario.read({**SMALL, **description}), 0)
    assert len(told.rounds) > 3
    for version, parts in simulated.kept_personal.items():
        np.testing.assert_array_equal(told.kept_personal[version], parts)
        np.testing.assert_array_equal(told.kept[version], simulated.kept[version])
    first, *_, last = simulated.kept_personal.values()
    assert (first != last).any(1).sum() > 2


def test_unshaped_clients_are_evaluated_with_their_personal_layers(live: Live) -> None:
    scenario = Scenario.read({**SMALL, **PERSONAL, "protocol": {"kind": "sync", "rounds": 4}})
    told, simulated = live(scenario, shape=False), simulate_seed(scenario, 0)
    # Training draws nothing that is secret, and all clients take part in each version.
    assert [row["test_loss"] for row in told.rounds] == [row["test_loss"] for row in simulated.rounds]
    assert any(note.startswith("model.personal: ") for note in told.notes)


def test_initial_weights_are_refused_where_personal_layers_are_not_sent(live: Live, tmp_path: Path) -> None:
    async def scene(*_: Any) -> None:
        raise AssertionError("it began")

    run = simulate(Scenario.read({**SMALL, "evaluation": {"keep": "last"}}))
    run.save(tmp_path / "run")
    (start,) = (tmp_path / "run").rglob("*.safetensors")
    here = Scenario.read({**SMALL, **PERSONAL, "model": {**PERSONAL["model"], "initial": str(start)}})
    other = here.override({"evaluation.keep": "none", "evaluation.clients_every": 0})
    with pytest.raises(
        ScenarioError, match=r"model\.initial: must be null where model\.personal is set and clients are on"
    ):
        hold_seed(other, scene, here=False)
    # In this process they begin with the file's.
    assert live(here).rounds[1]["test_loss"] == simulate_seed(here, 0).rounds[1]["test_loss"]


NOISE_IN_TRAINING: dict[str, Any] = {
    "training": {"lr": 0.1, "batch_size": 10, "epochs": 1, "example_clip": 1.0, "example_noise": 2.0},
    "privacy": {"kind": "dp_sgd", "clip_norm": 1.0, "noise_multiplier": 2.0},
}


@pytest.mark.parametrize("world", [LOSSY_UP, LEAVING_WORLD], ids=["lossy", "leaving"])
def test_lost_trainings_count_as_in_the_simulation(live: Live, world: dict[str, Any]) -> None:
    """Layers go on with it, and so do all later updates of the client."""
    description = {**NOISE_IN_TRAINING, **PERSONAL, "protocol": BUFFERED, "world": world}
    told, simulated = same(live, description), simulate_seed(Scenario.read({**SMALL, **description}), 0)
    assert [one.contribution for one in told.uploads] == [one.contribution for one in simulated.uploads]
    in_vain = {one.task for one in told.uploads} - set(select(told.events, kinds=["uploaded"])["task"].to_pylist())
    assert len(in_vain) > 1
    ours, theirs = SeedLedger(told), SeedLedger(simulated)
    assert ours.spending == theirs.spending
    # A shaped live run proves nothing to its server, which knows the noise.
    other = ["flags", "provable", "claim_holds"]
    assert ours.ledger.drop_columns(other) == theirs.ledger.drop_columns(other)
