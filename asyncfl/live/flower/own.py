"""asyncfl's server in a Flower federation whose clients run a `ClientApp` of the user's own.

    from asyncfl.live.flower.own import federate

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        outcome = federate(
            grid, ArrayRecord(net.state_dict()), clients=10,
            protocol={"kind": "fedbuff", "rounds": 100, "buffer": 5, "dispatch": {"kind": "constant", "in_flight": 8}},
        )
        net.load_state_dict(outcome.arrays.to_torch_state_dict())

The ClientApp uses Flower's message API: `train` finds the model in the ArrayRecord `arrays` and the version in
`config["server-round"]`, and replies with an ArrayRecord of the same arrays. Its MetricRecord may hold `train_loss` and
`train-s`, the seconds of training. Where updates are weighted by samples, `query` asks it for the metric
`num-examples`; where a detector needs scores, `query.scores` sends models (ArrayRecords `model-0`, `model-1`, ...) and
expects the metric `scores`, one per model.

The server clips each update when it arrives, and adds noise to the model. The uploads themselves carry no noise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.messages import Publish, Vector
from asyncfl.data.own import Dataset
from asyncfl.data.own.samples import Samples
from asyncfl.federation import SeedLedger, rounds_table
from asyncfl.federation.prepare import Federation, ResolvedSeed, prepare, privacy_context
from asyncfl.federation.round_recorder import RoundRecorder, Row, diverged_at
from asyncfl.federation.seed_run import SeedRun
from asyncfl.learning import Architecture
from asyncfl.learning.architecture import Shape
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.live.evaluations import Progress
from asyncfl.live.flower.nodes import ArrayDialect, serve_nodes
from asyncfl.live.flower.records import GridTransport, Shapes
from asyncfl.live.interrupts import Interrupts
from asyncfl.privacy import Contribution, State
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    import torch
    from flwr.app import ArrayRecord
    from flwr.serverapp import Grid

Evaluate = Callable[[Vector], Mapping[str, float]]
"""Function from a model (n_parameters,) to its `test_loss`, `test_accuracy`, or both."""


class Unseen(Dataset):
    """Data unknown to the server: one blank sample for each client."""

    kind: Literal["asyncfl.live.flower.own:Unseen"] = "asyncfl.live.flower.own:Unseen"
    clients: int = Field(ge=1)

    @property
    def title(self) -> str:
        return "the clients' own"

    def load(self) -> Samples:
        blank, label = np.zeros((self.clients, 1), dtype=np.float32), np.zeros(self.clients, dtype=np.int64)
        return Samples(blank, label, blank[:1], label[:1], classes=2)


class Parameters(Architecture):
    """A model of which the server knows the number of parameters only."""

    kind: Literal["asyncfl.live.flower.own:Parameters"] = "asyncfl.live.flower.own:Parameters"
    n: int = Field(ge=1)
    """Parameters."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        import torch

        n = self.n

        class Nothing(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(n))

            def forward(self, samples: torch.Tensor) -> torch.Tensor:
                return self.weight[:1].expand(len(samples), outputs)

        return Nothing()


@dataclass(frozen=True)
class FlowerOutcome:
    """Results of a federation."""

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
    progress: Progress | None = None,
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
    scenario = scenario_of(clients, len(initial), protocol, privacy, defence)
    judge = None if evaluate is None else lambda model: evaluate(shapes.record(model))
    transport = GridTransport(grid, timeout_s, shapes)
    run, model = asyncio.run(run_own(scenario, transport, initial, evaluate=judge, progress=progress))
    return FlowerOutcome(model, scenario, run, shapes)


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
        "evaluation": {"train_every": 0},
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


def clipped(state: State, base: Vector, model: Vector) -> Vector:
    """Return a model with its update from `base` clipped. A non-finite one is left to the server, which rejects it."""
    update = model.astype(np.float64) - base
    norm = float(np.linalg.norm(update))
    limit = state.clip_norm(np.array([norm])) if np.isfinite(norm) else None
    return model if limit is None or norm <= limit else (base + update * (limit / norm)).astype(np.float32)


class OwnRounds(RoundRecorder):
    """The table of rounds, with versions evaluated by a function of the user's."""

    def __init__(self, scenario: Scenario, federation: Federation, judge: Evaluate | None) -> None:
        super().__init__(scenario, federation.resolved.seed, federation)
        self.evaluator = None
        self.judge = judge
        self.last: Vector = federation.plan.initial

    def evaluate(self, row: Row, publish: Publish, personal: PersonalLayers | None = None) -> str | None:
        self.last = publish.model
        found = {} if self.judge is None else self.judge(publish.model)
        row |= {name: float(found[name]) for name in ("test_loss", "test_accuracy") if name in found}
        row["diverged"] = not np.isfinite([*map(float, found.values()), float(publish.model.sum())]).all()
        self.rows.completed()
        return diverged_at(publish.version) if row["diverged"] else None


async def run_own(
    scenario: Scenario,
    grid: GridTransport,
    initial: Vector,
    *,
    evaluate: Evaluate | None = None,
    progress: Progress | None = None,
) -> tuple[SeedRun, Vector]:
    """Run a federation from `initial` (n_parameters,), and return its results and its last model. See `federate`."""
    resolved = ResolvedSeed(scenario, 0, 0)
    federation = prepare(resolved)
    first = np.array(initial, dtype=np.float32)
    first.flags.writeable = False
    federation = replace(federation, plan=replace(federation.plan, initial=first))
    by_samples = scenario.protocol.weighting == "samples"
    clip = None if scenario.privacy.off else partial(clipped, federation.path.state)
    dialect = ArrayDialect({} if by_samples else None, clip)
    rounds = OwnRounds(scenario, federation, evaluate)
    options: dict[str, Any] = {
        "known": not by_samples,
        "progress": progress,
        "federation": federation,
        "rounds": rounds,
    }
    with Interrupts() as interrupts:
        run = await serve_nodes(resolved, grid, lambda host: dialect, interrupts=interrupts, **options)
    run.notes.append("live: over Flower, with a ClientApp of the user's own; updates are clipped by the server")
    return run, rounds.last
