"""Audit of a finished run with twins: its seeds are simulated again, and observed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.instrument import Instrument, Instruments
from asyncfl.extras.audit.finished_run import FinishedRun, algorithm_faults
from asyncfl.extras.audit.neighbours.findings import NOTE, audited
from asyncfl.extras.audit.neighbours.observer import TwinsObserver
from asyncfl.measurements import TwinAudit
from asyncfl.privacy.ledger.audit_columns import without_measured
from asyncfl.privacy.ledger.statements import statements
from asyncfl.results.storage import AUDIT, COMPLETE, Run, RunFolder
from asyncfl.simulation import SimulatedRuns


def audit_neighbours(
    finished: FinishedRun,
    audit: TwinAudit,
    seeds: Sequence[int],
    instruments: Iterable[Instrument] = (),
) -> Run:
    """Audit `seeds`, and return the run with the results. Nothing is written.

    The results are the table `audit`, `measured` in the ledger, the privacy statements, examples and notes. All results
    of an earlier audit of `seeds` are replaced; those of other seeds stay.

    Raises ScenarioError if the run lacks one of the clients, RunError if one of them has uploaded nothing.
    """
    scenario = finished.run.scenario
    if faults := [Fault("--clients", fault.message) for fault in audit.faults(scenario.data.clients)]:
        raise ScenarioError(faults)
    faults = list(
        audit.training_faults(scenario.privacy, scenario.training, scenario.model.personal, scenario.protocol)
    )
    if faults := [*faults, *algorithm_faults(scenario)]:
        raise ScenarioError(faults, finished.folder / "scenario.yaml")
    _check_uploads(finished, audit, seeds)
    run, prior, instrument = finished.run, SimulatedRuns(), Instruments(instruments)
    for seed in seeds:
        twins = TwinsObserver(audit, instrument)
        again = finished.resimulate(seed, [instrument, twins], prior)
        found = audited(twins, again, without_measured(run.tables["ledger"], seed))
        table = found.table
        if AUDIT in run.tables:
            others = run.tables[AUDIT].filter(pc.not_equal(run.tables[AUDIT]["seed"], seed))
            table = pa.concat_tables([others, table]).sort_by([("seed", "ascending")])
        run.tables |= {AUDIT: table, "ledger": found.ledger}
        old = _examples(run, seed)
        run.files = {name: content for name, content in run.files.items() if name not in old} | found.files
        summary, own = run.summary, run.summary["seeds"][str(seed)]
        own["notes"] = [*(note for note in own["notes"] if not note.startswith(NOTE)), *found.notes]
        of_all = [note for note in summary["notes"] if not note.startswith(NOTE)]
        of_seeds = (note for one in summary["seeds"].values() for note in one["notes"] if note.startswith(NOTE))
        summary["notes"] = list(dict.fromkeys([*of_all, *of_seeds]))
    run.summary["privacy"] = statements(run.tables["ledger"])
    return run


def _examples(run: Run, seed: int) -> list[str]:
    return sorted(name for name in run.files if name.startswith(f"disproved-{seed}."))


def save_run(finished: FinishedRun, run: Run) -> None:
    """Replace the run on disk by the audited run. An interruption leaves the old run whole. Raises OutputError."""
    own = RunFolder(finished.folder, run.scenario)
    with own.working() as area:
        own.replace(area, run.write_to, COMPLETE)


def _check_uploads(finished: FinishedRun, audit: TwinAudit, seeds: Sequence[int]) -> None:
    """Raise RunError if a client to audit uploaded nothing in one of the seeds, or if no honest client did."""
    clients = finished.run.clients
    for seed in seeds:
        known = clients[(clients["seed"] == seed) & (clients["uploads"] > clients["malicious_uploads"])]["client"]
        sent = set(known.tolist())
        if not sent:
            raise RunError(f"{finished.folder}: no honest client uploaded anything in seed {seed}")
        silent = [str(one) for one in audit.clients if one not in sent] if isinstance(audit.clients, tuple) else []
        if silent:
            some = ", ".join(str(one) for one in sorted(sent)[:5])
            raise RunError(
                f"{finished.folder}: client {', '.join(silent)} uploaded nothing of its own in seed {seed}; choose "
                f"others with --clients, such as {some}"
            )
