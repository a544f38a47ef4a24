"""Results of one seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.component import kind_of
from asyncfl.base.instrument import Row
from asyncfl.client import Attackers
from asyncfl.learning.architecture import batch_norms
from asyncfl.learning.kernels import TORCH
from asyncfl.privacy import PrivacyContext
from asyncfl.privacy.ledger.rows import scheme_notes
from asyncfl.privacy.scheme import stop_notes
from asyncfl.protocol import Server
from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.recording import Recording
from asyncfl.simulation.action_executor import ActionExecutor, Traffic
from asyncfl.simulation.prepare import Federation, ResolvedSeed
from asyncfl.simulation.release_store import ModelRecords, UploadRecords, with_uploads
from asyncfl.simulation.round_recorder import RoundRecorder, diverged_at
from asyncfl.world.world import Power


@dataclass
class SeedRun:
    """Results of one seed."""

    seed: int
    stopped: str
    """Reason why the run ended."""
    rounds: Sequence[Row]
    """Rows of the table of rounds, one per version."""
    events: pa.Table
    """The trace, see `asyncfl.protocol.events.EventsTable`."""
    tasks: pa.Table
    """One row per task, see `base.tables.TasksTable`."""
    fates: dict[str, int]
    """Fate -> number of tasks."""
    traffic: Traffic
    trained: int
    """Number of trained tasks."""
    used: int
    """Number of tasks whose update had a weight above 0 in a model."""
    sizes: Ints
    """(clients,) training samples of each client."""
    uploads: UploadRecords = field(default_factory=partial(UploadRecords.of, ()))
    """One per trained task, in the order in which they were collected or dropped."""
    models: ModelRecords = field(default_factory=partial(ModelRecords.of, (), UploadRecords.of(())))
    """Version -> published model, for versions made of updates."""
    by_client: dict[int, tuple[float, Floats]] = field(default_factory=dict)
    """Version -> time of publication, and (clients, 2) loss and accuracy on each client's own data."""
    attackers: list[int] = field(default_factory=list)
    """Attackers; with attackers drawn per round, clients that were drawn at least once."""
    kept: dict[int, Vector] = field(default_factory=dict)
    """Version -> model, for versions that `evaluation.keep` asks for."""
    kept_personal: dict[int, Vector] = field(default_factory=dict)
    """Version -> (clients, n_personal) personal layers of the kept models; empty without personal layers."""
    drawn: list[int] | None = None
    """Malicious tasks, with attackers drawn per round; None: all tasks of `attackers`."""
    spent: dict[int, float] | None = None
    """Client -> virtual time at which its budget was spent; None without budgets."""
    power: Power | None = None
    """Power of the clients' devices; None if energy is not counted."""
    domains: tuple[str, ...] = ()
    """(clients,) domain of each client's data; empty with a single domain."""
    in_real_time: bool = False
    """Whether the times are those that the trainings took, not those of a virtual clock."""
    resolved: ResolvedSeed | None = None
    """The scenario with the results of prior runs; None for a timeline without training."""
    context: PrivacyContext | None = None
    """Facts to which the noise was calibrated; None for a timeline without training."""
    learner: dict[str, Any] = field(default_factory=dict)
    """Description of the learner, for the summary."""
    data: dict[str, Any] = field(default_factory=dict)
    """Source and provenance of the data, for the summary."""
    notes: list[str] = field(default_factory=list)
    """Sentences for readers of the results."""
    missing: list[str] = field(default_factory=list)
    """Events that could not be written into the table."""
    noted: dict[str, int] = field(default_factory=dict)
    """Unusual observation of the server's rule -> number of versions."""
    recording: Recording | None = None
    """Messages and actions of the server, if recorded."""
    gemm: str = "default"
    """Library of the matrix products, see `learning.gemm`."""
    kernels: str = TORCH
    """Kernels of convolutions behind pooling, see `learning.kernels`."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by part. These, and `workers`, are the only numbers here that differ between equal runs."""
    workers: dict[str, int] = field(default_factory=dict)
    """Number of workers, tasks trained `again` or `in_vain`, and `deaths` of workers; empty without workers."""

    @property
    def diverged(self) -> bool:
        """Whether the run ended because a value was not finite."""
        return self.stopped.startswith("diverged")


SHARED_NOISE = (
    "noise follows from seed and noise_seed: runs that share both share it, and whoever knows both can subtract it; "
    "give a run that you publish a secret noise_seed of its own"
)
BACKLOG = 3
"""Buffers of updates that may wait for the server before a note says so."""
BACKLOG_NOTE = (
    f"more than {BACKLOG} buffers of updates waited for the server, which works more slowly than updates arrive "
    "(`waiting_max` in rounds.parquet), and grew stale there; lower the tasks in flight before you compare"
)
PARTIAL_WEIGHTS = {
    "whole": "as much as a whole one",
    "work": "by its epochs, relative to the other updates of its buffer",
    "normalised": "as in FedNova, by epochs, relative to the other updates of its buffer",
}


def seed_run(
    executor: ActionExecutor,
    rounds: RoundRecorder,
    stopped: str,
    events: pa.Table,
    trained: int,
    sizes: Ints,
    spent: dict[int, float] | None,
    attackers: Attackers | None,
) -> SeedRun:
    """Return the results of a seed that follow from its timeline; `conclude` adds the others.

    `stopped`: reason why the run ended; `trained`: number of trained tasks; `sizes`: (clients,) samples of each client.
    `spent`: client -> time at which its budget was spent; None without budgets.
    """
    if stopped.startswith("diverged"):
        # A buffer without one sound update publishes nothing: the last version is the one that diverged.
        rounds.rows[-1]["diverged"] = True
    elif (version := rounds.diverged) is not None:
        # The server published its last version before it was evaluated.
        stopped = diverged_at(version)
    tasks = executor.event_log.tasks_table(executor.event_log.recorder.end_s)
    executor.traffic.count_overheard(tasks)
    return SeedRun(
        seed=rounds.seed,
        stopped=stopped,
        rounds=rounds.rows,
        events=events,
        tasks=tasks,
        fates={
            fate.value: executor.tasks.fates[fate]
            for fate in Fate
            if fate is not Fate.BELOW_THRESHOLD or executor.server.protocol.secure_aggregation is not None
        },
        traffic=executor.traffic,
        trained=trained,
        used=executor.tasks.used,
        sizes=sizes,
        spent=spent,
        missing=list(executor.event_log.recorder.set_aside),
        power=rounds.scenario.world.power,
        by_client=rounds.by_client,
        kept=rounds.kept.models,
        kept_personal=rounds.kept.personal,
        attackers=[] if attackers is None else sorted(attackers.members),
        drawn=None if attackers is None or attackers.drawn is None else sorted(attackers.drawn),
    )


def conclude(run: SeedRun, federation: Federation, server: Server, recording: Recording | None) -> None:
    """Add the results that federation and server know to `run`: uploads, models, notes for its reader."""
    resolved, data, learner, path = federation.resolved, federation.data, federation.learner, federation.path
    run.uploads, run.models = federation.releases.uploads, federation.releases.models
    run.tasks = with_uploads(run.tasks, run.uploads)
    run.resolved, run.context, run.recording = resolved, path.context, recording
    run.learner, run.gemm, run.kernels = dict(learner.description), learner.gemm, learner.kernels
    run.domains = tuple(data.domains[place] for place in data.client_domains) if len(data.domains) > 1 else ()
    run.data = {"source": data.source, "provenance": data.provenance, "original": data.original}
    # The network of a kept model follows from them, without the data.
    run.data |= {"shape": list(data.shape), "outputs": data.outputs}
    run.notes = list(_notes(run.events, federation))
    if run.missing:
        run.notes.append(f"{len(run.missing)} events could not be written, the first of them: {run.missing[0]}")
    run.noted = dict(sorted(server.noted.items()))
    # Rows of a run that an earlier version began lack the column.
    late = sum(row.get("waiting_max", 0) > BACKLOG * resolved.scenario.participants for row in run.rounds)
    if late:
        run.noted[BACKLOG_NOTE] = late


def _notes(events: pa.Table, federation: Federation) -> Iterator[str]:
    """Yield sentences for readers of the results."""
    scenario, path = federation.resolved.scenario, federation.path
    private = not scenario.privacy.off
    if federation.data.inputs_are_constant:
        yield "all samples of the clients have the same inputs: nothing can be learned from them"
    yield from scheme_notes(path.scheme, path.context)
    threats = scenario.threats
    if threats is not None and threats.attackers and not threats.count(scenario.data.clients):
        yield (
            f"threats.attackers: {threats.attackers:g} of {scenario.data.clients} clients is less than half a "
            "client: nobody attacks"
        )
    if scenario.algorithm.personal_pull:
        yield (
            f"algorithm {kind_of(scenario.algorithm)}: losses and accuracies are means over the own models of all "
            "clients, attackers included, which are never sent; kept models are the common ones"
        )
    elif path.personal is not None:
        own, shared = len(path.personal.learner.initial), path.personal.learner.n_parameters
        yield (
            f"model.personal: {own} of {own + shared} parameters stay at each client; a published model is evaluated "
            "with each client's own layers, and the mean over all clients is reported"
        )
    if scenario.algorithm.replaces_training:
        yield (
            f"algorithm {kind_of(scenario.algorithm)} trains by code of its own: epochs, steps and batch_size of the "
            "section training make its batches, and the other fields mean what this code makes of them"
        )
    elif (overshoot := scenario.training.lr * (scenario.training.proximal_mu + scenario.algorithm.proximal)) > 2:
        yield (
            f"training.lr times the strength of the proximal term is {overshoot:.3g}: above 2 each step of plain SGD "
            "ends farther from the model that was sent, and training diverges"
        )
    if replaced := batch_norms(scenario.model, federation.data.shape, federation.data.outputs):
        yield (
            f"model: GroupNorm takes the place of {replaced} BatchNorm layers of {scenario.model.kind}, whose running "
            "statistics are not averaged and whose outputs depend on the other samples of a batch"
        )
    if scenario.training.deadline_s is not None:
        yield (
            f"clients stop after {scenario.training.deadline_s:g} s of training and upload what they have trained: "
            f"such an update weighs {PARTIAL_WEIGHTS[scenario.protocol.partial_work]}, and counts for privacy with "
            "these epochs"
        )
    yield from stop_notes(path.scheme, scenario.leaks)
    if private:
        yield from scenario.compression.notes()
    if not scenario.download_compression.off:
        yield "clients train from the compressed published models; accuracies are those of the uncompressed models"
        if private:
            yield (
                "published models are compressed after all noise was added, with random numbers independent of the "
                "data: this is post-processing, and the claimed guarantees hold; audits measure the uncompressed "
                "models, and so may find more than an adversary with the compressed ones"
            )
    for rule in scenario.defence.rules.values():
        yield from rule.notes(scenario.participants)
    # Live clients that draw their noise from secrets of their own share it with no other run.
    if not path.scheme.off and path.streams is federation.resolved.streams:
        yield SHARED_NOISE
    sums = select(events, kinds=[Kind.UNMASKED])["detail"].to_pylist()
    if wrapped := sum("wrapped around" in detail for detail in sums):
        yield (
            f"{wrapped} of {len(sums)} securely aggregated sums were too large for the field in some numbers, which "
            "mean nothing then: give noise and updates more room by fewer bits or weight_bits, or a larger range"
        )
    if repeated := len(select(events, kinds=[Kind.COHORT_REPEATED])):
        yield (
            f"{repeated} cohorts brought no update, and the server drew another for the same version: clients sent "
            "more updates than there are versions, and each is a release"
        )
