"""Assemble the results of a seed at its end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.messages import Fate
from asyncfl.client import Attackers
from asyncfl.federation.action_executor import ActionExecutor
from asyncfl.federation.evaluation import personal_notes
from asyncfl.federation.prepare import Federation
from asyncfl.federation.round_recorder import RoundRecorder, diverged_at
from asyncfl.federation.seed_run import SeedRun
from asyncfl.privacy.ledger.budgets import stop_notes
from asyncfl.scenario import Scenario
from asyncfl.server import Server
from asyncfl.server.recording import Recording
from asyncfl.trace import Kind
from asyncfl.trace.query import select


def seed_run(
    executor: ActionExecutor,
    rounds: RoundRecorder,
    stopped: str,
    events: pa.Table,
    trained: int,
    sizes: NDArray[np.int64],
    spent: dict[int, float] | None,
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
    return SeedRun(
        seed=rounds.seed,
        stopped=stopped,
        rounds=rounds.rows,
        events=events,
        fates={fate.value: executor.tasks.fates[fate] for fate in Fate},
        traffic=executor.traffic,
        trained=trained,
        used=executor.tasks.used,
        sizes=sizes,
        spent=spent,
        power=rounds.scenario.world.power,
        by_client=rounds.by_client,
        kept=rounds.kept.models,
        kept_personal=rounds.kept.personal,
    )


SHARED_NOISE = (
    "noise follows from seed and noise_seed: runs that share both share it, and whoever knows both can subtract it; "
    "give a run that you publish a secret noise_seed of its own"
)


def conclude(run: SeedRun, federation: Federation, server: Server, recording: Recording | None) -> None:
    """Add the results that federation and server know to `run`: uploads, models, attackers, notes for its reader."""
    scenario, scheme, data, learner = (
        federation.resolved.scenario,
        federation.path.scheme,
        federation.data,
        federation.learner,
    )
    run.uploads, run.models = federation.releases.uploads, federation.releases.models
    record_attackers(run, federation.attackers)
    run.resolved = federation.resolved
    run.context = federation.path.context
    run.recording = recording
    run.learner = dict(learner.description)
    run.gemm = learner.gemm
    run.domains = tuple(data.domains[place] for place in data.client_domains) if len(data.domains) > 1 else ()
    run.data = {"source": data.source, "provenance": data.provenance, "original": data.original}
    run.notes = [
        *scheme.notes(federation.path.context),
        *personal_notes(federation.path.personal),
        *_partial_notes(scenario),
        *stop_notes(scheme, scenario.leaks),
        *([] if scenario.privacy.off else scenario.compression.notes()),
        *_download_notes(scenario),
        *(note for rule in scenario.defence.rules.values() for note in rule.notes(scenario.participants)),
        # Live clients that draw their noise from secrets of their own share it with no other run.
        *([] if scheme.off or federation.path.streams is not federation.resolved.streams else [SHARED_NOISE]),
    ]
    if repeated := len(select(run.events, kinds=[Kind.COHORT_REPEATED])):
        run.notes.append(
            f"{repeated} cohorts brought no update, and the server drew another for the same version: clients sent "
            "more updates than there are versions, and each is a release"
        )
    run.noted = dict(sorted(server.noted.items()))


def _download_notes(scenario: Scenario) -> list[str]:
    """Return notes on models that are compressed for download."""
    if scenario.download_compression.off:
        return []
    notes = ["clients train from the compressed published models; accuracies are those of the uncompressed models"]
    if not scenario.privacy.off:
        notes.append(
            "published models are compressed after all noise was added, with random numbers independent of the data: "
            "this is post-processing, and the claimed guarantees hold; audits measure the uncompressed models, and so "
            "may find more than an adversary with the compressed ones"
        )
    return notes


def _partial_notes(scenario: Scenario) -> list[str]:
    """Return notes on updates of clients that were stopped."""
    if scenario.training.deadline_s is None:
        return []
    counts = {
        "whole": "as much as a whole one",
        "work": "by its epochs, relative to the other updates of its buffer",
        "normalised": "as in FedNova, by epochs, relative to the other updates of its buffer",
    }
    return [
        f"clients stop after {scenario.training.deadline_s:g} s of training and upload what they have trained: "
        f"such an update weighs {counts[scenario.protocol.partial_work]}, and counts for privacy with these epochs"
    ]


def record_attackers(run: SeedRun, attackers: Attackers | None) -> None:
    """Add the attackers to `run`."""
    if attackers is not None:
        run.attackers = sorted(attackers.members)
        run.drawn = None if attackers.drawn is None else sorted(attackers.drawn)
