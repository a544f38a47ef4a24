"""Our server, and somebody else's ClientApp."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.api import gather, run_of
from asyncfl.base.errors import ScenarioError
from asyncfl.base.messages import Vector
from asyncfl.federation.seed_run import SeedRun
from asyncfl.federation.storage import Run
from asyncfl.live.flower import own
from asyncfl.live.flower.own import FlowerOutcome, clipped, run_own, scenario_of
from asyncfl.live.flower.records import QUERY, TRAIN, FlowerMessage, Reply, Shapes
from asyncfl.privacy.scheme import FixedNorm
from tests.live import virtual_loop
from tests.live.flower.conftest import Array, ArrayRecord, Message, MetricRecord, RecordDict
from tests.live.flower.grid import App, FakeGrid

D = 40
TARGET = np.linspace(-1, 1, D, dtype=np.float32)
LAPLACE = {"kind": "mechanisms", "server": {"kind": "laplace", "epsilon": 5.0}, "clip": {"order": 1}}
OF_MODELS = {"kind": "mechanisms", "server": {"kind": "gaussian", "epsilon": 5.0}, "clip": {"target": "model"}}
FEDBUFF = {"kind": "fedbuff", "rounds": 12, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}


def approaches(target: Vector, share: float = 0.5, samples: int = 1) -> App:
    """A ClientApp that moves the model some of the way to a target; it knows nothing of asyncfl."""

    def app(message: FlowerMessage) -> Reply:
        if message.kind == QUERY:
            return Reply("", metrics={"num-examples": samples})
        assert message.kind == TRAIN
        assert message.models is not None
        assert set(message.config) == {"server-round"}
        model = message.models[0]
        return Reply("", model=model + np.float32(share) * (target - model), metrics={"train_loss": 0.5})

    return app


def federated(
    apps: list[App], protocol: dict[str, Any], evaluate: Callable[[Vector], Any] | None = None, **more: Any
) -> tuple[SeedRun, Vector, FakeGrid]:
    grid = FakeGrid({7 + number: app for number, app in enumerate(apps)})
    scenario = scenario_of(len(apps), D, protocol, **more)
    run, model = virtual_loop.run(lambda: run_own(scenario, grid, np.zeros(D, dtype=np.float32), evaluate=evaluate))
    return run, model, grid


def test_updates_of_any_client_app_are_buffered() -> None:
    def judge(model: Vector) -> dict[str, float]:
        return {"test_loss": float(np.abs(model - TARGET).max())}

    run, model, grid = federated([approaches(TARGET)] * 3, FEDBUFF, judge)
    assert run.stopped == "all versions published"
    assert run.fates["aggregated"] == 24
    assert max(row["staleness_max"] for row in run.rounds) >= 1
    assert np.abs(model - TARGET).max() < 0.05
    assert run.rounds[-1]["test_loss"] == pytest.approx(np.abs(model - TARGET).max())
    assert not grid.messages(QUERY)


def test_updates_weigh_by_the_samples_that_nodes_report() -> None:
    """Two clients that pull apart: the mean lies where their samples put it."""
    apps = [approaches(TARGET, 1.0, samples=3), approaches(-TARGET, 1.0, samples=1)]
    run, model, grid = federated(apps, {"kind": "sync", "rounds": 1})
    assert len(grid.messages(QUERY)) == 2
    np.testing.assert_allclose(model, 0.75 * TARGET - 0.25 * TARGET, atol=1e-6)
    assert list(run.sizes) == [3, 1]


def test_a_detector_flags_poisoned_updates() -> None:
    apps = [approaches(TARGET)] * 5 + [approaches(-20 * TARGET)]
    defence = {"detector": {"kind": "spectral"}, "strikes": {"threshold": 2}}
    run, model, _ = federated(
        apps,
        {"kind": "fedbuff", "rounds": 20, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 6}},
        defence=defence,
    )
    assert run.fates["flagged"] >= 2
    assert np.abs(model - TARGET).max() < 0.1


def test_the_server_clips_adds_noise_and_accounts_for_it(tmp_path: Any) -> None:
    privacy = {"kind": "dp_fedavg", "noise_at": "server", "noise_multiplier": 2.0, "clip_norm": 0.5}
    protocol = {**FEDBUFF, "rounds": 3}
    run, model, _ = federated([approaches(TARGET, 1.0)] * 3, protocol, privacy=privacy)
    assert all(row["clip_norm"] == 0.5 for row in run.rounds[1:])
    assert all(row["sigma_d"] > 0 for row in run.rounds[1:])
    scenario = scenario_of(3, D, protocol, privacy)
    outcome = FlowerOutcome(model, scenario, run, Shapes((("all", (D,), "float32"),)))
    public = outcome.ledger[outcome.ledger["adversary"] == "public"]
    assert np.isfinite(public["exact_epsilon"]).all()
    gather(scenario, [run_of(scenario, run)]).save(tmp_path / "run")
    assert Run.load(tmp_path / "run").summary["seeds"]["0"]["stopped"] == "all versions published"


def test_only_updates_longer_than_the_norm_are_clipped() -> None:
    base = np.ones(4, dtype=np.float32)
    clip = partial(clipped, FixedNorm(1.0))
    long = clip(base, base + np.float32([3, 0, 0, 4]))
    np.testing.assert_allclose(long - base, [0.6, 0, 0, 0.8], rtol=1e-6)
    exact = base + np.float32([0, 1, 0, 0])
    assert clip(base, exact) is exact
    short = base + np.float32([0.1, 0, 0, 0])
    assert clip(base, short) is short
    broken = np.full(4, np.nan, dtype=np.float32)
    assert clip(base, broken) is broken


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.0}}, "privacy: must add its noise at the server"),
        ({"privacy": LAPLACE}, "privacy: must clip updates by their L2 norm, which the server does here"),
        ({"privacy": OF_MODELS}, "privacy: must clip updates by their L2 norm, which the server does here"),
        ({"privacy": {"kind": "nbafl", "epsilon": 50, "delta": 0.01, "exposures": 1}}, "privacy"),
        ({"defence": {"root_samples": 10, "detector": {"kind": "zeno++"}}}, "defence.root_samples"),
    ],
)
def test_privacy_that_clients_would_have_to_apply_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(ScenarioError, match=field):
        scenario_of(3, D, FEDBUFF, **more)


def test_privacy_needs_weights_that_clients_cannot_choose() -> None:
    privacy = {"kind": "dp_fedavg", "noise_at": "server", "noise_multiplier": 1.0}
    with pytest.raises(ScenarioError, match=r"protocol\.weighting: must be uniform"):
        scenario_of(3, D, {"kind": "sync", "rounds": 1}, privacy)


class Nodes:
    """A grid of Flower whose two nodes move each array half of the way to ones."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def get_node_ids(self) -> list[int]:
        return [4, 5]

    def push_messages(self, messages: Any) -> list[str]:
        self.messages += messages
        return [str(len(self.messages) - len(messages) + place) for place in range(len(messages))]

    def pull_messages(self, names: Any) -> list[Any]:
        return [self._answer(name) for name in names]

    def _answer(self, name: str) -> Message:
        sent = self.messages[int(name)].content["arrays"]
        moved = ArrayRecord({part: Array((one.numpy() + 1) / 2) for part, one in sent.items()})
        return Message(RecordDict(arrays=moved, metrics=MetricRecord(train_loss=0.5)), name)


@pytest.mark.usefixtures("flwr")
def test_a_federation_begins_and_ends_with_the_arrays_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "asyncio", SimpleNamespace(run=lambda coroutine: virtual_loop.run(lambda: coroutine)))
    arrays: Any = ArrayRecord(weight=Array(np.zeros((2, 3))), bias=Array(np.full(2, -1.0, np.float32)))
    judged: list[Any] = []
    rows: list[tuple[int, int]] = []

    def evaluate(record: Any) -> dict[str, float]:
        judged.append([one.numpy().tolist() for one in record.values()])
        return {"test_accuracy": 0.5}

    grid: Any = Nodes()
    protocol = {"kind": "sync", "rounds": 2, "weighting": "uniform"}
    outcome = own.federate(
        grid,
        arrays,
        clients=2,
        protocol=protocol,
        privacy={"kind": "dp_fedavg", "noise_at": "server", "noise_multiplier": 0.0, "clip_norm": 100.0},
        defence={"rule": {"kind": "median"}},
        evaluate=evaluate,
        progress=lambda row, in_flight: rows.append((row["version"], in_flight)),
        timeout_s=77.0,
    )
    assert {message.fields["ttl"] for message in grid.messages} == {77.0}
    assert list(outcome.arrays) == ["weight", "bias"]
    assert outcome.arrays["weight"].numpy().tolist() == [[0.75] * 3] * 2
    assert outcome.arrays["bias"].numpy().tolist() == [0.5] * 2
    assert [one[1] for one in judged] == [[-1.0, -1.0], [0.0, 0.0], [0.5, 0.5]]
    assert rows == [(0, 0), (1, 0), (2, 0)]
    assert outcome.run.trained == 4
    assert outcome.rounds["test_accuracy"].tolist() == [0.5] * 3
    assert outcome.rounds["epsilon_exact_max"].tolist() == [0.0, np.inf, np.inf]
    assert (outcome.events["kind"] == "aggregated").sum() == 4
    assert outcome.scenario.defence.rule.kind == "median"
    assert outcome.run.notes[-1] == (
        "live: over Flower, with a ClientApp of the user's own; updates are clipped by the server"
    )


@pytest.mark.usefixtures("flwr")
@pytest.mark.parametrize("values", [None, ["a"], []])
def test_arrays_that_are_no_model_are_refused(values: Any) -> None:
    arrays: Any = ArrayRecord() if values is None else ArrayRecord(one=Array(np.array(values)))
    grid: Any = Nodes()
    with pytest.raises(ScenarioError, match="arrays: must be a model: arrays of numbers, of numpy or of a state dict"):
        own.federate(grid, arrays, clients=2, protocol=FEDBUFF)
