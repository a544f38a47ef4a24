"""Everybody who takes part in one seed: the streams they draw from, clients, attackers, and the server's plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import Attackers, TaskPath
from asyncfl.compression import Downloads, compressor_of
from asyncfl.data import FederatedData
from asyncfl.federation.aggregate_errors import AggregateErrors
from asyncfl.federation.defence_plan import defence_plan
from asyncfl.federation.privacy_context import privacy_context
from asyncfl.federation.recorded_noise import RecordedServerNoise
from asyncfl.federation.release_store import ReleaseStore
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.learning import Learner, make_learner
from asyncfl.learning.personal_layers import SharedPartLearner
from asyncfl.learning.weights import starting_parameters
from asyncfl.messages import Vector
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.scenario import Scenario
from asyncfl.server import DefencePlan, ServerPlan
from asyncfl.server.plan import ServerNoise
from asyncfl.streams import Streams


@dataclass(frozen=True)
class Federation:
    """Everybody who takes part in one seed, before anything has happened."""

    resolved: ResolvedSeed
    data: FederatedData
    learner: Learner
    attackers: Attackers | None
    path: TaskPath
    releases: ReleaseStore
    """What was uploaded and published so far: nothing."""
    plan: ServerPlan
    aggregates: AggregateErrors | None = None
    """What measures each aggregate; None: nothing does."""

    def budget_tracker(self) -> BudgetTracker | None:
        """A tracker of what the clients spend of their budgets, nothing so far; None: they have none to stop at."""
        path = self.path
        if path.scheme.stop_at is None:
            return None
        counted = self.resolved.scenario.counted_by_budgets
        return BudgetTracker(path.scheme.stop_at, path.scheme, path.context, self.data.sizes, path.state, counted)


def prepare(resolved: ResolvedSeed) -> Federation:
    """The data, clients and server's plan of one seed; the same each time."""
    scenario, streams = resolved.scenario, resolved.streams
    data = scenario.data.build(streams, scenario.defence.root_samples)
    learner, initial = started(scenario, data, streams)
    context = privacy_context(resolved, data.sizes)
    attackers = attackers_of(scenario, streams)
    compressor = compressor_of(scenario.compression, streams)
    path = TaskPath(data, learner, scenario.training, scenario.privacy, context, streams, attackers, compressor)
    record = ReleaseStore()
    defence = defence_plan(scenario, data, learner)
    plan = server_plan(scenario, data.sizes, initial, streams, RecordedServerNoise(path, record), defence)
    aggregates = None
    if scenario.evaluation.aggregates:
        aggregates = AggregateErrors(scenario.protocol, _nobody if attackers is None else attackers.malicious)
        plan = replace(plan, observer=aggregates)
    return Federation(resolved, data, learner, attackers, path, record, plan, aggregates)


def _nobody(task: int, client: int) -> bool:
    return False


def started(scenario: Scenario, data: FederatedData, streams: Streams) -> tuple[Learner, Vector]:
    """What trains the tasks of one seed, and the model that it begins with; both are of the shared layers alone where
    others are personal."""
    generator = streams.torch_generator("initial_model")
    initial = starting_parameters(scenario.model, data.shape, data.outputs, generator)
    learner = learner_of(scenario, data)
    if not scenario.model.personal:
        return learner, initial
    parameter_split = scenario.model.parameter_split(data.shape, data.outputs)
    shared, personal = parameter_split.split(initial)
    return SharedPartLearner(learner, parameter_split, personal), shared


def learner_of(scenario: Scenario, data: FederatedData) -> Learner:
    """What trains the tasks of a scenario: one epoch at a time, where noise is added after each."""
    at_once = {"epochs": 1} if scenario.privacy.noise_each_epoch else {}
    return make_learner(scenario.model, scenario.training.model_copy(update=at_once), data.shape, data.outputs)


def attackers_of(scenario: Scenario, streams: Streams) -> Attackers | None:
    """Who attacks in one seed; None: nobody does."""
    if scenario.threats is None or scenario.threats.off:
        return None
    # The cohort of a publication is a round; where tasks are begun one by one, as many as make a version.
    in_cohorts = scenario.protocol.dispatch.at_publish(scenario.data.clients) > 0
    of_round = None if in_cohorts else scenario.participants
    return Attackers(scenario.threats, scenario.data.clients, scenario.data.classes, streams, of_round)


def server_plan(
    scenario: Scenario,
    sizes: NDArray[np.int64],
    initial: Vector,
    streams: Streams,
    noise: ServerNoise | None = None,
    defence: DefencePlan | None = None,
) -> ServerPlan:
    """What the server of one seed knows from the start. `noise` None: it adds none; `defence` None: it has none."""
    return ServerPlan(
        scenario.protocol,
        sizes,
        initial,
        streams,
        defence=defence or DefencePlan(),
        noise=noise,
        aggregate_s=scenario.world.aggregate_s,
        aggregate_s_per_update=scenario.world.aggregate_s_per_number * scenario.n_parameters,
        aggregate_alone=scenario.world.aggregate_alone,
        evaluate_s=0.0 if scenario.world.evaluate_beside else scenario.world.evaluate_s,
        evaluate_every=scenario.evaluation.test_every,
        score_s=scenario.world.score_s,
        downloads=Downloads(scenario.download_compression, streams) if not scenario.download_compression.off else None,
    )
