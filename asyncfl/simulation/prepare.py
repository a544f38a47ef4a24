"""Prepare one seed: results that it needs from other runs, random streams, data, clients, attackers, the server's plan.

The budgets of a control scheme follow from the uploads of another scheme's run of the same scenario and seed. If the
exposures L, the number of times that the most exposed client is overheard, are to be measured, the timeline of the
scenario is run several times before training, with other seeds, and overheard updates are counted. The result is an
assumption about one adversary in one world, not a guarantee. A simulation carries out such runs itself (`PriorRuns`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asyncfl.algorithms import FedAvg
from asyncfl.base.arrays import Vector
from asyncfl.base.streams import Streams
from asyncfl.client import Attackers, TaskPath
from asyncfl.client.compression import Downloads
from asyncfl.data import FederatedData
from asyncfl.defences import DefenceContext
from asyncfl.learning import Learner, make_learner
from asyncfl.learning.personal_layers import SharedPartLearner
from asyncfl.learning.personal_models import PersonalModelLearner
from asyncfl.learning.weights import starting_parameters
from asyncfl.measurements import Evaluation
from asyncfl.privacy import MeasuredExposures, PrivacyContext
from asyncfl.privacy.correlation.noise_stream import NoiseStream
from asyncfl.privacy.release import Upload
from asyncfl.protocol import DefencePlan, ServerPlan
from asyncfl.protocol.machine import ServerNoise
from asyncfl.scenario import Scenario, has_fixed_weights
from asyncfl.simulation.aggregate_errors import AggregateErrors
from asyncfl.simulation.release_store import RecordedServerNoise, ReleaseStore

log = logging.getLogger(__name__)


class PriorRuns(Protocol):
    """Runs on whose results another run depends."""

    def uploads(self, scenario: Scenario, seed: int) -> Sequence[Upload]:
        """Return the uploads of the run of `scenario` with `seed`, see `SeedRun.uploads`."""

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        """Return the greatest number of updates overheard from one client in the timeline of `scenario` with `seed`."""


@dataclass(frozen=True)
class ResolvedSeed:
    """One seed of a scenario, with all results that it needs from other runs."""

    scenario: Scenario
    """The scenario with a privacy scheme that needs no other run."""
    seed: int
    exposures: int
    """L: uploads of one client that an eavesdropper is assumed to hold."""
    calibration: tuple[int, ...] = ()
    """Counts of the replicates, if L was measured."""

    def __post_init__(self) -> None:
        _ = self.reveals_scales  # read before the run: the files of the data may be gone when the ledger asks

    @cached_property
    def reveals_scales(self) -> bool:
        """Whether scales of the inputs are measured on samples that clients hold, see `DataSpec.reveals_scales`."""
        return self.scenario.data.reveals_scales

    @cached_property
    def streams(self) -> Streams:
        """The random streams of the seed."""
        return streams_of(self.scenario, self.seed)


def resolve(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """Return the seed with everything that it needs from other runs, which `prior` carries out: the privacy scheme with
    its final budgets, and the exposures L."""
    reference = scenario.privacy.reference
    if reference is not None:
        # Evaluation does not change training: skip it.
        unjudged = Evaluation(train_every=0, test_every=0)
        log.info("seed %d: the scheme is settled by a run of %s first", seed, reference.kind)
        first = scenario.model_copy(update={"privacy": reference, "evaluation": unjudged, "seeds": (seed,)})
        scenario = scenario.model_copy(update={"privacy": scenario.privacy.settle(prior.uploads(first, seed))})
    return with_exposures(scenario, seed, prior)


def with_exposures(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """Return the seed with its exposures L, assumed or measured. The scheme of `scenario` must need no other run.

    `prior`: simulates the timelines on which L is measured.
    """
    rounds, participants, clients = scenario.protocol.rounds, scenario.participants, scenario.data.clients
    assumed = scenario.privacy.assumed_exposures(rounds, participants, clients)
    if isinstance(assumed, int):
        return ResolvedSeed(scenario, seed, assumed)
    log.info("seed %d: how often clients are overheard is measured on %d timelines", seed, assumed.replicates)
    counts = _overheard(scenario, seed, assumed, prior)
    if assumed.quantile is None:
        return ResolvedSeed(scenario, seed, max(counts), counts)
    # The quantile of the counts, rounded up.
    exposures = math.ceil(float(np.quantile(counts, assumed.quantile)) - 1e-9)
    return ResolvedSeed(scenario, seed, exposures, counts)


def _overheard(scenario: Scenario, seed: int, measured: MeasuredExposures, prior: PriorRuns) -> tuple[int, ...]:
    """Simulate replicates of the run with other seeds, no attack and unlimited budgets. Return for each the number of
    updates overheard from its most overheard client."""
    # Attackers are unknown beforehand: the many uploads of a flooder must not determine the noise of other clients.
    # Budgets are unknown too, since they depend on the noise: every client answers, and L may be too large.
    unlimited = scenario.privacy.model_copy(update={"stop_at": None})
    # With a fixed clock seed every replicate would equal the run itself, whose noise would then depend on its future.
    seeding = scenario.seeding.model_copy(update={"clock": None})
    honest = scenario.model_copy(update={"threats": None, "privacy": unlimited, "seeding": seeding})
    random = streams_of(scenario, seed).generator("calibration")
    seeds = random.integers(0, 2**31 - 1, size=measured.replicates)
    return tuple(prior.most_overheard(honest, int(one)) for one in seeds)


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """Return the random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training, noise=scenario.noise_seed)


@dataclass(frozen=True)
class Federation:
    """Everything of one seed before its start."""

    resolved: ResolvedSeed
    data: FederatedData
    learner: Learner
    attackers: Attackers | None
    path: TaskPath
    releases: ReleaseStore
    """Uploads and published models; empty at first."""
    plan: ServerPlan
    aggregates: AggregateErrors | None = None
    """Measures the error of each aggregate; None if not asked for."""


def prepare(resolved: ResolvedSeed, data: FederatedData | None = None) -> Federation:
    """Build data, clients and the server's plan of one seed. The result is the same each time.

    `data`: what `data_of` built for an equal seed before; None: build it.
    """
    scenario, streams = resolved.scenario, resolved.streams
    data = data_of(scenario, streams) if data is None else data
    learner, initial = started(scenario, data, streams)
    context = privacy_context(resolved, data.sizes)
    attackers = attackers_of(scenario, streams)
    path = TaskPath(
        data,
        learner,
        scenario.training,
        scenario.privacy,
        context,
        streams,
        attackers,
        scenario.compression,
        scenario.algorithm,
        scenario.protocol.secure_aggregation,
    )
    record = ReleaseStore()
    defence = defence_plan(scenario, data, learner)
    correlation = scenario.privacy.correlation
    stream = None if correlation is None else NoiseStream(correlation, context.rounds, streams)
    noise = RecordedServerNoise(path, record, stream)
    plan = server_plan(scenario, data.sizes, initial, streams, noise, defence)
    aggregates = None
    if scenario.evaluation.aggregates:
        aggregates = AggregateErrors(scenario.protocol, attackers)
        plan = replace(plan, instrument=aggregates)
    return Federation(resolved, data, learner, attackers, path, record, plan, aggregates)


def data_of(scenario: Scenario, streams: Streams) -> FederatedData:
    """Build the samples of all clients, the test set, and the server's own samples. Raises DataError."""
    return scenario.data.build(streams, scenario.defence.root_samples)


def started(scenario: Scenario, data: FederatedData, streams: Streams) -> tuple[Learner, Vector]:
    """Return the learner and the initial model of one seed; of the shared layers only, if others are personal."""
    generator = streams.torch_generator("initial_model")
    initial = starting_parameters(scenario.model, data.shape, data.outputs, generator)
    learner = learner_of(scenario, data)
    if scenario.algorithm.personal_pull:
        return PersonalModelLearner(learner, partial(personal_learner_of, scenario, data), initial), initial
    if not scenario.model.personal:
        return learner, initial
    parameter_split = scenario.model.parameter_split(data.shape, data.outputs)
    shared, personal = parameter_split.split(initial)
    return SharedPartLearner(learner, parameter_split, personal), shared


def learner_of(scenario: Scenario, data: FederatedData) -> Learner:
    """Return the learner of a scenario. It trains one epoch at a time if noise is added after each."""
    changes: dict[str, Any] = {"epochs": 1} if scenario.privacy.noise_each_epoch else {}
    if pull := scenario.algorithm.proximal:
        changes["proximal_mu"] = scenario.training.proximal_mu + pull
    return make_learner(scenario.model, scenario.training.model_copy(update=changes), data.shape, data.outputs)


def attackers_of(scenario: Scenario, streams: Streams) -> Attackers | None:
    """Return the attackers of one seed; None without attack."""
    if scenario.threats is None or scenario.threats.off:
        return None
    # A round is a cohort. If tasks begin one by one, it is as many tasks as make a version.
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
    """Return the server's plan of one seed.

    `sizes`: (clients,) training samples of each client; `initial`: (n_parameters,) version 0; `noise`: the server's
    noise, None for none; `defence`: None for none.
    """
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
        # Otherwise it changes no time, and need not be known.
        evaluate_every=scenario.evaluation_schedule.test_every if scenario.world.evaluate_s else 0,
        score_s=scenario.world.score_s,
        algorithm=scenario.algorithm if len(initial) else FedAvg(),
        downloads=Downloads(scenario.download_compression, streams) if not scenario.download_compression.off else None,
    )


def defence_plan(
    scenario: Scenario,
    data: FederatedData,
    learner: Learner,
) -> DefencePlan:
    """Return the server's defences, with the facts about the federation that they may use."""
    protocol, training = scenario.protocol, scenario.training

    def weigh(
        samples: NDArray[np.int64], staleness: NDArray[np.int64], work: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        return protocol.rate * protocol.factors(samples, staleness, work)

    # The labels of a regression are not classes.
    of_classes = data.root if data.classes else None
    known = DefenceContext(
        clients=data.clients,
        samples=data.sizes,
        n_parameters=learner.n_parameters,
        # Total movement of the model per unit of gradient: momentum adds the gradient again in later steps.
        lr=training.lr / (1 - training.momentum),
        gradient_clip=training.gradient_clip,
        steps=np.array([training.steps_of(int(size)) for size in data.sizes], dtype=np.int64),
        root_gradient=None if data.root is None else partial(_root_gradient, learner, *data.root),
        root_gradients=None if of_classes is None else partial(_root_gradients, learner, *of_classes),
        root_predictions=None if of_classes is None else partial(_predictions, learner, of_classes[0]),
        root_labels=None if of_classes is None else of_classes[1],
        bounded_steps=training.bounds_steps and not scenario.algorithm.changes_steps,
        compressed=not scenario.compression.off,
        noise_between_epochs=scenario.privacy.noise_each_epoch and training.epochs > 1,
        linear=scenario.defence.is_linear and protocol.aggregation == "delta",
        weigh=weigh,
    )
    defence = scenario.defence
    return DefencePlan(defence.rule, defence.detector, defence.strikes, known, defence.fallback)


def _root_gradient(learner: Learner, images: NDArray[np.float32], labels: NDArray[np.int64], model: Vector) -> Vector:
    return learner.gradient(model, images, labels)


def _root_gradients(learner: Learner, images: NDArray[np.float32], labels: NDArray[np.int64], model: Vector) -> Vector:
    of_classes = [labels == label for label in np.unique(labels)]
    return np.stack([learner.gradient(model, images[rows], labels[rows]) for rows in of_classes])


def _predictions(learner: Learner, images: NDArray[np.float32], model: Vector) -> NDArray[np.float64]:
    outputs = learner.outputs(model, images).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def personal_learner_of(scenario: Scenario, data: FederatedData) -> Learner:
    """Return a learner of the clients' own models."""
    changes = {"proximal_mu": scenario.algorithm.personal_pull, "example_noise": 0.0}
    return make_learner(scenario.model, scenario.training.model_copy(update=changes), data.shape, data.outputs)


def privacy_context(resolved: ResolvedSeed, sizes: NDArray[np.int64]) -> PrivacyContext:
    """Return the facts to which the noise of a seed is calibrated. `sizes`: (clients,) training samples of each
    client."""
    scenario = resolved.scenario
    training = scenario.training
    return PrivacyContext(
        scenario.data.clients,
        scenario.participants,
        scenario.protocol.rounds,
        int(sizes.min()),
        resolved.exposures,
        training.samples_per_step,
        training.epochs_of(int(sizes.min())),
        training.lr,
        steps=training.steps,
        poisson_sizes=tuple(np.unique(sizes).tolist()) if training.batches == "poisson" else (),
        n_parameters=scenario.n_parameters,
        rate=scenario.protocol.rate,
        plain_sgd=training.bounds_steps
        and not (scenario.algorithm.changes_training or training.momentum or training.proximal_mu),
        clips_samples=training.gradient_step == "printed",
        fixed_weights=has_fixed_weights(scenario.protocol, scenario.defence, scenario.algorithm),
        equal_weights=_equal_weights(scenario, sizes),
        personal=bool(scenario.model.personal),
        min_separation=scenario.protocol.min_separation or 1,
        max_participations=scenario.protocol.max_participations,
        once_each=_equal_weights(scenario, sizes) and _once_each(scenario),
    )


def _equal_weights(scenario: Scenario, sizes: NDArray[np.int64]) -> bool:
    """Whether no update can weigh more than 1/n in a mean of n, and no weight depends on data."""
    protocol = scenario.protocol
    return (
        has_fixed_weights(protocol, scenario.defence, scenario.algorithm)
        and (scenario.training.deadline_s is None or protocol.partial_work == "whole")
        and (protocol.weighting != "samples" or len(np.unique(sizes)) == 1)
        # Divided by the sum of the weights, a fresh update among stale ones weighs more than 1/n.
        and (protocol.divisor == "buffer" or protocol.staleness.is_constant)
    )


def _once_each(scenario: Scenario) -> bool:
    """Whether all updates of a version come from different clients, and weigh the same at any staleness."""
    protocol = scenario.protocol
    if protocol.opening.updates == 1:
        return True
    # Without cohorts a client that has answered may be asked again while the same buffer is being filled.
    cohorts = protocol.dispatch.in_cohorts and protocol.late == "drop"
    return cohorts and protocol.staleness.is_constant
