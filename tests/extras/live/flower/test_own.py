"""Our server, and somebody else's ClientApp."""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from asyncfl.api import gather, run_of
from asyncfl.base.arrays import Vector
from asyncfl.base.errors import ScenarioError
from asyncfl.extras.live.client_messages import ClientScoreRequest, Scores, Task, Update
from asyncfl.extras.live.flower import own
from asyncfl.extras.live.flower.nodes import Answers
from asyncfl.extras.live.flower.own import EXAMPLES, SECONDS, ArrayDialect, FlowerOutcome, clipped, scenario_of
from asyncfl.extras.live.flower.records import QUERY, TRAIN, FlowerError, Shapes
from asyncfl.privacy.correlation import Tree
from asyncfl.privacy.scheme import FixedNorm
from asyncfl.results.storage import Run
from asyncfl.testing.laws import same
from tests.extras.live import virtual_loop
from tests.extras.live.flower.grid import App, Array, ArrayRecord, FakeGrid, Message, MetricRecord, RecordDict, trained

D = 40
TARGET = np.linspace(-1, 1, D, dtype=np.float32)
LAPLACE = {"kind": "mechanisms", "server": {"kind": "laplace", "epsilon": 5.0}, "clip": {"order": 1}}
OF_MODELS = {"kind": "mechanisms", "server": {"kind": "gaussian", "epsilon": 5.0}, "clip": {"target": "model"}}
FEDBUFF = {"kind": "fedbuff", "rounds": 12, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}}

pytestmark = pytest.mark.usefixtures("flwr")


def approaches(target: Vector, share: float = 0.5, samples: int = 1) -> App:
    """A ClientApp that moves the model some of the way to a target; it knows nothing of asyncfl."""

    def app(message: Message) -> Any:
        if message.metadata.message_type == QUERY:
            return RecordDict(metrics=MetricRecord({"num-examples": samples}))
        assert message.metadata.message_type == TRAIN
        assert set(message.content["config"]) == {"server-round"}
        model = message.content["arrays"]["all"].numpy()
        return trained(model + np.float32(share) * (target - model), train_loss=0.5)

    return app


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "run", lambda coroutine: virtual_loop.run(lambda: coroutine))


def federated(
    apps: list[App], protocol: dict[str, Any], evaluate: Callable[[Any], Any] | None = None, **more: Any
) -> tuple[FlowerOutcome, FakeGrid]:
    grid: Any = FakeGrid({7 + number: app for number, app in enumerate(apps)})
    arrays = trained(np.zeros(D, np.float32))["arrays"]
    return own.federate(grid, arrays, clients=len(apps), protocol=protocol, evaluate=evaluate, **more), grid


def test_updates_of_any_client_app_are_buffered() -> None:
    def judge(arrays: Any) -> dict[str, float]:
        return {"test_loss": float(np.abs(arrays["all"].numpy() - TARGET).max())}

    outcome, grid = federated([approaches(TARGET)] * 3, FEDBUFF, judge)
    run, model = outcome.run, outcome.model
    assert run.stopped == "all versions published"
    assert run.fates["aggregated"] == 24
    assert max(row["staleness_max"] for row in run.rounds) >= 1
    assert np.abs(model - TARGET).max() < 0.05
    assert run.rounds[-1]["test_loss"] == pytest.approx(np.abs(model - TARGET).max())
    assert not grid.messages(QUERY)


def test_updates_weigh_by_the_samples_that_nodes_report() -> None:
    """Two clients that pull apart: the mean lies where their samples put it."""
    apps = [approaches(TARGET, 1.0, samples=3), approaches(-TARGET, 1.0, samples=1)]
    outcome, grid = federated(apps, {"kind": "sync", "rounds": 1})
    assert len(grid.messages(QUERY)) == 2
    np.testing.assert_allclose(outcome.model, 0.75 * TARGET - 0.25 * TARGET, atol=1e-6)
    assert list(outcome.run.sizes) == [3, 1]


def test_a_detector_flags_poisoned_updates() -> None:
    apps = [approaches(TARGET)] * 5 + [approaches(-20 * TARGET)]
    defence = {"detector": {"kind": "evidence"}, "strikes": {"threshold": 2}}
    outcome, _ = federated(
        apps,
        {"kind": "fedbuff", "rounds": 20, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 6}},
        defence=defence,
    )
    assert outcome.run.fates["flagged"] >= 2
    assert np.abs(outcome.model - TARGET).max() < 0.1


def test_the_server_clips_adds_noise_and_accounts_for_it(tmp_path: Any) -> None:
    privacy = {"kind": "dp_fedavg", "noise_at": "server", "noise_multiplier": 2.0, "clip_norm": 0.5}
    protocol = {**FEDBUFF, "rounds": 3}
    outcome, _ = federated([approaches(TARGET, 1.0)] * 3, protocol, privacy=privacy)
    assert all(row["clip_norm"] == 0.5 for row in outcome.run.rounds[1:])
    assert not outcome.run.fates["rejected"]
    assert all(row["sigma_d"] > 0 for row in outcome.run.rounds[1:])
    public = outcome.ledger[outcome.ledger["adversary"] == "public"]
    assert np.isfinite(public["exact_epsilon"]).all()
    gather(outcome.scenario, [run_of(outcome.scenario, outcome.run)]).save(tmp_path / "run")
    assert Run.load(tmp_path / "run").summary["seeds"]["0"]["stopped"] == "all versions published"


def test_the_server_correlates_its_noise_over_versions() -> None:
    privacy = {"kind": "dp_ftrl", "noise_multiplier": 2.0, "clip_norm": 0.5}
    outcome, _ = federated([approaches(TARGET, 1.0)] * 3, {**FEDBUFF, "rounds": 4}, privacy=privacy)
    # Steps 1, 2 and 3 of a tree have the noise of one node, step 4 that of the root less a part of the others.
    units = [row["sigma_d"] / outcome.run.models[row["version"]].server_std for row in outcome.run.rounds[1:]]
    assert units[:3] == pytest.approx([1.0, 1.0, 1.0])
    assert units[3] == pytest.approx(Tree().std(4, 4))
    public = outcome.ledger[outcome.ledger["adversary"] == "public"]
    assert np.isfinite(public["provable"]).all()


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


def halfway(message: Message) -> RecordDict:
    """Moves each array half of the way to ones."""
    moved = {part: Array((one.numpy() + 1) / 2) for part, one in message.content["arrays"].items()}
    return RecordDict(arrays=ArrayRecord(moved), metrics=MetricRecord(train_loss=0.5))


def test_a_federation_begins_and_ends_with_the_arrays_of_its_model() -> None:
    arrays: Any = ArrayRecord(weight=Array(np.zeros((2, 3))), bias=Array(np.full(2, -1.0, np.float32)))
    judged: list[Any] = []
    rows: list[tuple[int, int]] = []

    def evaluate(record: Any) -> dict[str, float]:
        judged.append([one.numpy().tolist() for one in record.values()])
        return {"test_accuracy": 0.5}

    grid: Any = FakeGrid({4: halfway, 5: halfway})
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
    assert {message.metadata.ttl for message in grid.sent} == {77.0}
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


@pytest.mark.parametrize("values", [None, ["a"], []])
def test_arrays_that_are_no_model_are_refused(values: Any) -> None:
    arrays: Any = ArrayRecord() if values is None else ArrayRecord(one=Array(np.array(values)))
    grid: Any = FakeGrid({})
    with pytest.raises(ScenarioError, match="arrays: must be a model: arrays of numbers, of numpy or of a state dict"):
        own.federate(grid, arrays, clients=2, protocol=FEDBUFF)


DIALECT = ArrayDialect(shapes=Shapes((("all", (3,), "float32"),)), state=None, by_samples=True)
BASE = np.zeros((1, 3), np.float32)


@pytest.mark.parametrize("samples", [0, 1.5, [3], None])
def test_an_invalid_number_of_samples_is_refused(samples: Any) -> None:
    content: Any = RecordDict(metrics=MetricRecord({EXAMPLES: samples}))
    with pytest.raises(FlowerError, match=r"it must answer a query with metric num-examples, a whole number >= 1, got"):
        DIALECT.introduction(content)


def read(given: Task | ClientScoreRequest, models: Vector, content: Any) -> Any:
    """The client's message in a reply after 2.5 s, and its model."""

    async def main() -> Answers:
        _, reads = DIALECT.translate(given, models)
        await asyncio.sleep(2.5)
        return reads(content)

    [answer] = virtual_loop.run(main)
    return answer


@pytest.mark.parametrize(
    ("told", "trained_s"),
    [({SECONDS: 1.0}, 1.0), ({}, 2.5), ({SECONDS: -1.0}, 0.0), ({SECONDS: math.nan}, 2.5), ({SECONDS: 1e300}, 2.5)],
)
def test_claims_of_a_users_app_about_privacy_are_not_read_and_its_times_are_made_possible(
    told: dict[str, float], trained_s: float
) -> None:
    metrics = {"train_loss": 0.5, "added-std": 0.25, "epsilon": 3.0, "epochs": 2} | told
    update, model = read(Task(3, 0, 4, 0), BASE, trained(BASE[0], **metrics))
    assert isinstance(update, Update)
    assert (update.loss, update.added_std, update.epsilon, update.epochs) == (0.5, 0.0, None, None)
    assert [one.after_s for one in update.report] == [0.0, 0.0, *[trained_s] * 3]
    assert model.shape == (1, 3)
    lossless, _ = read(Task(3, 0, 4, 0), BASE, trained(BASE[0], train_loss=math.nan))
    assert lossless.loss is None


def test_an_app_replies_the_models_arrays_and_a_score_for_each_model() -> None:
    with pytest.raises(FlowerError, match="its reply must hold the arrays of the model"):
        read(Task(3, 0, 4, 0), BASE, RecordDict())
    models = np.zeros((2, 3), np.float32)
    scores, _ = read(ClientScoreRequest(6, 0), models, RecordDict(any=MetricRecord(scores=[0.5, 1])))
    assert same(scores, Scores(6, np.array([0.5, 1.0]), ()))
    with pytest.raises(FlowerError, match="its reply must hold 2 scores, one per model, got 1"):
        read(ClientScoreRequest(6, 0), models, RecordDict(any=MetricRecord(scores=0.5)))
