"""asyncfl's server in a Flower federation whose clients run a `ClientApp` of the user's own.

The ClientApp uses Flower's message API: `train` finds the model in the ArrayRecord `arrays` and the version in
`config["server-round"]`, and replies with an ArrayRecord of the same arrays. Its MetricRecord may hold `train_loss` and
`train-s`, the seconds of training. Where updates are weighted by samples, `query` asks it for the metric
`num-examples`; where a detector needs scores, `query.scores` sends models (ArrayRecords `model-0`, `model-1`, ...) and
expects the metric `scores`, one per model.

The server clips each update when it arrives, and adds noise to the model. The uploads themselves carry no noise.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import Fault, ScenarioError, shortened
from asyncfl.base.instrument import Row
from asyncfl.data.own import Dataset
from asyncfl.data.own.samples import Samples
from asyncfl.extras.live.client_messages import ClientEvent, ClientScoreRequest, Hello, Scores, Task, Update
from asyncfl.extras.live.evaluations import OnRow
from asyncfl.extras.live.flower.nodes import Answers, Dialect, Given, Read, run_on_grid
from asyncfl.extras.live.flower.records import ARRAYS, CONFIG, METRICS, FlowerError, Shapes, flower, record_of
from asyncfl.extras.live.host import NO_MODELS
from asyncfl.extras.live.interrupts import Interrupts
from asyncfl.learning import Architecture
from asyncfl.learning.architecture import Shape
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.privacy import Contribution, State
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Download, Publish
from asyncfl.results.run_tables import rounds_table
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation.evaluation import Measured
from asyncfl.simulation.prepare import ResolvedSeed, prepare, privacy_context
from asyncfl.simulation.round_recorder import RoundRecorder
from asyncfl.simulation.seed_run import SeedRun

if TYPE_CHECKING:
    import torch
    from flwr.app import ArrayRecord, RecordDict
    from flwr.serverapp import Grid

EXAMPLES, LOSS, SECONDS, SCORES = "num-examples", "train_loss", "train-s", "scores"
"""Metrics of a ClientApp: training samples, mean loss of the last epoch, seconds of training, one score per model."""


class Unseen(Dataset):
    """Data unknown to the server: one blank sample for each client."""

    kind: Literal["asyncfl.extras.live.flower.own:Unseen"] = "asyncfl.extras.live.flower.own:Unseen"
    clients: int = Field(ge=1)

    @property
    def title(self) -> str:
        return "the clients' own"

    def load(self) -> Samples:
        blank, label = np.zeros((self.clients, 1), dtype=np.float32), np.zeros(self.clients, dtype=np.int64)
        return Samples(blank, label, blank[:1], label[:1], classes=2)


class Parameters(Architecture):
    """A model of which the server knows the number of parameters only."""

    kind: Literal["asyncfl.extras.live.flower.own:Parameters"] = "asyncfl.extras.live.flower.own:Parameters"
    n: int = Field(ge=1)
    """Parameters."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        import torch

        class Nothing(torch.nn.Module):
            weight: torch.nn.Parameter

            def forward(self, samples: torch.Tensor) -> torch.Tensor:
                return self.weight[:1].expand(len(samples), outputs)

        module = Nothing()
        module.weight = torch.nn.Parameter(torch.zeros(self.n))
        return module


@dataclass(frozen=True)
class FlowerOutcome:
    """Results of `federate`."""

    model: Vector
    """(n_parameters,) the last version of the model."""
    scenario: Scenario
    """Scenario of the server; its data and training are placeholders."""
    run: SeedRun
    """Results of the seed; `asyncfl.api.run_of` converts them to a `Run`, which can be written and traced."""
    shapes: Shapes

    @property
    def arrays(self) -> ArrayRecord:
        """The last version of the model, in the arrays of the initial model."""
        return self.shapes.record(self.model)

    @property
    def rounds(self) -> pd.DataFrame:
        """Table of rounds, one row per version."""
        return SeedLedger(self.run).with_epsilons(rounds_table(self.run)).to_pandas()  # type: ignore[no-any-return]

    @property
    def events(self) -> pd.DataFrame:
        """Table of events."""
        return self.run.events.to_pandas()  # type: ignore[no-any-return]

    @property
    def ledger(self) -> pd.DataFrame:
        """Privacy ledger, one row per adversary and holder of a guarantee."""
        return SeedLedger(self.run).ledger.to_pandas()  # type: ignore[no-any-return]


def federate(
    grid: Grid,
    arrays: ArrayRecord,
    *,
    clients: int,
    protocol: Mapping[str, Any],
    privacy: Mapping[str, Any] | None = None,
    defence: Mapping[str, Any] | None = None,
    evaluate: Callable[[ArrayRecord], Mapping[str, float]] | None = None,
    progress: OnRow | None = None,
    timeout_s: float = 3600.0,
) -> FlowerOutcome:
    """Run a federation of `clients` nodes of `grid`, and return its results. It begins when they are all connected.

    `arrays`: initial model. `protocol`, `privacy`, `defence`: as in a scenario. `evaluate`: function from a version to
    its `test_loss`, `test_accuracy` or both; None: no evaluation. `progress`: called with the row of each version and
    the number of tasks in flight. `timeout_s`: seconds after which a message without an answer counts as a lost upload.
    Raises ScenarioError for settings that need the clients' cooperation, FlowerError where Flower or an app fails.
    """
    shapes = Shapes.of(arrays)
    initial = shapes.vector(arrays)
    if initial is None or not len(initial):
        raise ScenarioError([Fault("arrays", "must be a model: arrays of numbers, of numpy or of a state dict")])
    initial.flags.writeable = False
    scenario = scenario_of(clients, len(initial), protocol, privacy, defence)
    resolved = ResolvedSeed(scenario, 0, 0)
    federation = prepare(resolved)
    federation = replace(federation, plan=replace(federation.plan, initial=initial))
    rounds = OwnRounds(scenario, resolved.seed, federation)
    rounds.evaluator = None
    if evaluate is not None:
        rounds.judge = lambda model: evaluate(shapes.record(model))
    by_samples = scenario.protocol.weighting == "samples"
    state = None if scenario.privacy.off else federation.path.state
    options = {"known": not by_samples, "federation": federation, "rounds": rounds, "progress": progress}
    dialect = ArrayDialect(shapes=shapes, state=state, by_samples=by_samples)
    with Interrupts() as interrupts:
        run = asyncio.run(run_on_grid(resolved, grid, timeout_s, dialect, interrupts=interrupts, **options))
    return FlowerOutcome(rounds.last, scenario, run, shapes)


def scenario_of(
    clients: int,
    n_parameters: int,
    protocol: Mapping[str, Any],
    privacy: Mapping[str, Any] | None = None,
    defence: Mapping[str, Any] | None = None,
) -> Scenario:
    """Return the scenario of such a federation. Raises ScenarioError."""
    unseen = {"kind": f"{__name__}:Unseen", "clients": clients}
    description: dict[str, Any] = {
        "data": {"dataset": unseen, "clients": clients, "samples_per_client": 1},
        "model": {"kind": f"{__name__}:Parameters", "n": n_parameters},
        "protocol": dict(protocol),
        "evaluation": {"train_every": 0, "test_every": 1},
    }
    parts = {"privacy": privacy, "defence": defence}
    scenario = Scenario.read(description | {name: dict(part) for name, part in parts.items() if part is not None})
    if faults := list(_own_faults(scenario)):
        raise ScenarioError(faults)
    return scenario


def _own_faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield faults for settings that need the clients' cooperation."""
    privacy = scenario.privacy
    if scenario.defence.root_samples:
        yield Fault("defence.root_samples", "must be 0: the server has no data here")
    if privacy.off:
        return
    context = privacy_context(ResolvedSeed(scenario, 0, 0), np.ones(scenario.data.clients, dtype=np.int64))
    norm = privacy.start(context).clip_norm(np.ones(1))
    noise = privacy.upload_noise(context, norm, Contribution(0, 1, 0, None))
    if noise.std or noise.in_training or privacy.stop_at is not None or privacy.scores is not None:
        yield Fault("privacy", "must add its noise at the server (noise_at: server): the ClientApp adds none")
    elif norm is not None and (privacy.clip_target.payload, privacy.clip_target.order) != ("update", 2):
        yield Fault("privacy", "must clip updates by their L2 norm, which the server does here")
    if scenario.protocol.weighting == "samples":
        yield Fault(
            "protocol.weighting",
            "must be uniform with privacy: what clients say of their samples depends on their data",
        )


@dataclass(frozen=True, kw_only=True)
class ArrayDialect(Dialect):
    """Messages to a ClientApp of the user's own, which is sent arrays and replies with arrays."""

    shapes: Shapes
    state: State | None
    """Clips updates when they arrive; None: nothing is clipped."""
    by_samples: bool
    """Whether nodes are asked for their number of samples; otherwise they count as one."""

    def query(self, **more: Any) -> dict[str, Any] | None:
        return {CONFIG: flower().ConfigRecord({})} if self.by_samples else None

    def introduction(self, content: RecordDict | None) -> Hello:
        samples = 1 if content is None else record_of(content.metric_records, METRICS).get(EXAMPLES)
        if not isinstance(samples, int) or not 1 <= samples <= 2**53:
            got = shortened(samples, 100)
            raise FlowerError(f"it must answer a query with metric {EXAMPLES}, a whole number >= 1, got {got}")
        return Hello(-1, samples)

    def translate(self, given: Given, models: Vector | Download) -> tuple[dict[str, Any], Read]:
        config, rows = flower().ConfigRecord, models.model[None] if isinstance(models, Download) else models
        if isinstance(given, ClientScoreRequest):
            sent = {f"model-{number}": self.shapes.record(model) for number, model in enumerate(rows)}
            return {CONFIG: config({}), **sent}, partial(self._scores, given, len(rows))
        sent = {CONFIG: config({"server-round": given.version}), ARRAYS: self.shapes.record(rows[0])}
        return sent, partial(self._update, given, rows[0], asyncio.get_running_loop().time())

    def _scores(self, given: ClientScoreRequest, models: int, content: RecordDict) -> Answers:
        found = record_of(content.metric_records, METRICS).get(SCORES)
        scores = np.array([*map(float, found if isinstance(found, list) else [found])], dtype=np.float64)
        if len(scores) != models:
            raise FlowerError(f"its reply must hold {models} scores, one per model, got {len(scores)}")
        return [(Scores(given.request, scores, ()), NO_MODELS)]

    def _update(self, given: Task, base: Vector, began_s: float, content: RecordDict) -> Answers:
        model = self.shapes.vector(record_of(content.array_records, ARRAYS))
        if model is None:
            raise FlowerError("its reply must hold the arrays of the model")
        if self.state is not None and len(model) == len(base):
            model = clipped(self.state, base, model)
        metrics = record_of(content.metric_records, METRICS)
        loss, seconds = (_finite(metrics.get(name)) for name in (LOSS, SECONDS))
        took_s = asyncio.get_running_loop().time() - began_s
        # Without a metric, training is assumed to have taken all the time.
        trained_s = took_s if seconds is None else min(max(0.0, seconds), took_s)
        report = (
            ClientEvent(0.0, Kind.DOWNLOADED, base.nbytes, 1, "down"),
            ClientEvent(0.0, Kind.TRAINING_STARTED),
            ClientEvent(trained_s, Kind.TRAINED),
            ClientEvent(trained_s, Kind.UPLOAD_STARTED, model.nbytes),
            ClientEvent(trained_s, Kind.UPLOADED, model.nbytes, 1, "up"),
        )
        return [(Update(given.task, loss, 0.0, None, report), model[None])]


def _finite(metric: object) -> float | None:
    return float(metric) if isinstance(metric, int | float) and math.isfinite(metric) else None


def clipped(state: State, base: Vector, model: Vector) -> Vector:
    """Return a model with its update from `base` clipped. A non-finite one is left to the server, which rejects it."""
    update = model.astype(np.float64) - base
    norm = float(np.linalg.norm(update))
    limit = state.clip_norm(np.array([norm])) if np.isfinite(norm) else None
    return model if limit is None or norm <= limit else (base + update * (limit / norm)).astype(np.float32)


class OwnRounds(RoundRecorder):
    """The table of rounds, with versions evaluated by a function of the user's."""

    judge: Callable[[Vector], Mapping[str, float]] | None = None
    """Function from a model (n_parameters,) to its `test_loss`, `test_accuracy`, or both."""
    last: Vector
    """Version that was evaluated last."""

    def evaluate(self, row: Row, publish: Publish, personal: PersonalLayers | None = None) -> str | None:
        self.last = publish.model
        found = {} if self.judge is None else self.judge(publish.model)
        columns = {name: float(found[name]) for name in ("test_loss", "test_accuracy") if name in found}
        return self._complete(row, publish, Measured(columns, [*map(float, found.values())], None))
