"""What a seed left behind, put together when it is over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.client import Attackers
from asyncfl.federation.action_executor import ActionExecutor
from asyncfl.federation.personal_evaluation import personal_notes
from asyncfl.federation.prepare import Federation
from asyncfl.federation.round_recorder import RoundRecorder, diverged_at
from asyncfl.federation.seed_run import SeedRun
from asyncfl.messages import Fate
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
    """A seed as far as the clock knows it. `trained`: tasks that were trained; `sizes`: (clients,) samples of each.

    `spent`: client -> when its budget was spent; None: there were none to stop at.
    """
    if stopped.startswith("diverged"):
        # A buffer without one sound update publishes nothing: the last version is the one that was diverging.
        rounds.rows[-1]["diverged"] = True
    elif (version := rounds.diverged) is not None:
        # The server had published all it was to publish before anybody judged the last.
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


def conclude(run: SeedRun, federation: Federation, server: Server, recording: Recording | None) -> None:
    """Add to `run` what its federation and its server know: uploads, models, attackers, what its reader must know."""
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
        *stop_notes(scheme),
        *([] if scenario.privacy.off else scenario.compression.notes()),
        *_download_notes(scenario),
        *(note for rule in scenario.defence.rules.values() for note in rule.notes(scenario.participants)),
    ]
    if repeated := len(select(run.events, kinds=[Kind.COHORT_REPEATED])):
        run.notes.append(
            f"{repeated} cohorts came to nothing, and the server drew another for the same version: clients sent more "
            "updates than there are versions, and each is a release"
        )
    run.noted = dict(sorted(server.noted.items()))


def _download_notes(scenario: Scenario) -> list[str]:
    """What a reader must know of models that are compressed on their way to clients."""
    if scenario.download_compression.off:
        return []
    notes = [
        "clients train from published models as they read them, compressed; accuracies are those of the models as the "
        "server has them"
    ]
    if not scenario.privacy.off:
        notes.append(
            "published models are compressed after all noise was added, with random numbers that depend on no data: "
            "that is post-processing, and they give away no more than is claimed; what audits measure is measured on "
            "the models before, and so may be more than who has the compressed ones can find"
        )
    return notes


def _partial_notes(scenario: Scenario) -> list[str]:
    """What a reader must know of updates whose clients were stopped."""
    if scenario.training.deadline_s is None:
        return []
    counts = {
        "whole": "as if it were whole",
        "work": "by its epochs, relative to the other updates of its buffer",
        "normalised": "as FedNova has it, by epochs, relative to the other updates of its buffer",
    }
    return [
        f"clients stop after {scenario.training.deadline_s:g} s of training and upload the epochs that they have done: "
        f"such an update weighs {counts[scenario.protocol.partial_work]}, and counts for privacy with these epochs"
    ]


def record_attackers(run: SeedRun, attackers: Attackers | None) -> None:
    """Add to `run` who attacked."""
    if attackers is not None:
        run.attackers = sorted(attackers.members)
        run.drawn = None if attackers.drawn is None else sorted(attackers.drawn)
