"""Everybody who takes part in one seed: the streams they draw from, clients, attackers, and the server's plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from asyncfl.client import Attackers, TaskPath
from asyncfl.data import FederatedData
from asyncfl.learning import Learner
from asyncfl.messages import Vector
from asyncfl.privacy import Contribution, PrivacyContext, Scheme, State
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.privacy.noise.drawing import add_noise
from asyncfl.scenario import Scenario
from asyncfl.server import DefencePlan, ServerPlan
from asyncfl.server.aggregation import Aggregated
from asyncfl.server.machine import ServerNoise
from asyncfl.simulation.calibration import privacy_context
from asyncfl.simulation.defence import defence_plan
from asyncfl.simulation.reference import measured
from asyncfl.streams import Streams


@dataclass(frozen=True)
class Cast:
    """Everybody who takes part in one seed, before anything has happened."""

    streams: Streams
    data: FederatedData
    learner: Learner
    context: PrivacyContext
    calibration: list[int]
    attackers: Attackers | None
    path: TaskPath
    plan: ServerPlan


def prepare_seed(scenario: Scenario, seed: int) -> Cast:
    """The data, clients and server's plan of one seed; the same each time."""
    from asyncfl.learning import make_learner

    scenario = measured(scenario, seed)
    streams = streams_of(scenario, seed)
    data = scenario.data.build(streams, scenario.defence.root_samples)
    at_once = {"epochs": 1} if scenario.privacy.noise_each_epoch else {}
    training = scenario.training.model_copy(update=at_once)
    learner = make_learner(scenario.model, training, data.shape, data.classes)
    context, calibration = privacy_context(scenario, data.sizes, streams)
    attackers = attackers_of(scenario, streams)
    state = scenario.privacy.start(context)
    path = TaskPath(data, learner, scenario.training, scenario.privacy, context, streams, attackers, state)
    initial = scenario.model.initial_parameters(data.shape, data.classes, streams.torch_generator("initial_model"))
    noise = partial(_server_noise, path)
    defence = defence_plan(scenario, data, learner)
    plan = server_plan(scenario, data.sizes, initial, streams, noise, defence)
    return Cast(streams, data, learner, context, calibration, attackers, path, plan)


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """The random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training)


def attackers_of(scenario: Scenario, streams: Streams) -> Attackers | None:
    """Who attacks in one seed; None: nobody does."""
    if scenario.threats is None or scenario.threats.off:
        return None
    # The cohort of a publication is a round; where tasks are begun one by one, as many as make a version.
    in_cohorts = scenario.protocol.dispatch.at_publish(scenario.data.clients) > 0
    of_round = None if in_cohorts else scenario.participants
    return Attackers(scenario.threats, scenario.data.clients, scenario.data.classes, streams, of_round)


def budget_tracker(
    scheme: Scheme, context: PrivacyContext, sizes: NDArray[np.int64], state: State | None
) -> BudgetTracker | None:
    """The budgets of one seed at which clients stop; None: there are none."""
    return None if scheme.stop_at is None else BudgetTracker(scheme.stop_at, scheme, context, sizes, state)


def server_plan(
    scenario: Scenario,
    sizes: NDArray[np.int64],
    initial: Vector,
    streams: Streams,
    noise: ServerNoise | None,
    defence: DefencePlan,
) -> ServerPlan:
    """What the server of one seed knows from the start. `noise` None: it adds none."""
    return ServerPlan(
        scenario.protocol,
        sizes,
        initial,
        streams,
        defence=defence,
        noise=noise,
        aggregate_s=scenario.world.aggregate_s,
        score_s=scenario.world.score_s,
    )


def _server_noise(path: TaskPath, made: Aggregated, version: int) -> tuple[Vector, float]:
    """The model with the noise that the scheme wants the server to add; see `Scheme.model_noise`."""
    scheme, context = path.scheme, path.context
    contributions = []
    for task, client, weight in zip(made.tasks, made.clients, made.weights, strict=True):
        # A server that replays a recording has no path that trained: only a scheme with a state would miss it.
        one = path.contributions.get(task) or Contribution(client, path.data.samples(client))
        contributions.append(replace(one, weight=context.rate * weight))
    path.entered, path.entered_clip_norm = tuple(contributions), made.clip_norm
    noise = scheme.model_noise(context, made.clip_norm, contributions)
    add_noise(noise.distribution, made.model, noise.std, path.streams, "server_noise", number=version)
    return made.model, noise.std
