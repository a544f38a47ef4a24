"""What a call of the workflow has to do: the runs of the selected experiments, and which of them share a job.

Runs are known by the digest of their scenario, so equal cells of different experiments are one run. Runs that are cheap
share a job, as a process costs more than a second before it trains; how cheap is estimated from the scenario alone, and
a job holds runs of one experiment, so that an edit of another experiment changes no job. Runs of a job may depend on
different code (one attack or another): each says on disk which, and only those whose own code has changed are computed
again.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from asyncfl.base.errors import Fault, OutputError, ScenarioError, system_says
from asyncfl.experiments.cells import Cell, cells
from asyncfl.experiments.code import code_digest, combined
from asyncfl.experiments.files import find, rule_name
from asyncfl.experiments.job import read_codes
from asyncfl.experiments.loading import load
from asyncfl.experiments.spec import SCALES, Experiment, Scale
from asyncfl.federation.storage import COMPLETE, TABLES
from asyncfl.scenario import Scenario

JOB_SECONDS = 240.0
"""Estimated length up to which runs are put together in one job."""
RUN_FILES = ("scenario.yaml", *(f"{name}.parquet" for name in TABLES), COMPLETE, "timing.json")
REPORT_FILES = ("index.html", "claims.md", "claims.csv")
"""Files at the top of the results folder."""


@dataclass(frozen=True)
class WorkflowJob:
    """Runs that one process computes, one after another."""

    experiment: str
    """The first experiment that asks for them."""
    digests: tuple[str, ...]
    code: str
    """Digest of the code that the runs depend on, of all of them together."""
    cost_s: float = 0.0
    """Estimated seconds that the runs take."""

    @property
    def name(self) -> str:
        """Name of its rule: experiment and first run."""
        return f"{rule_name('run', self.experiment)}_{self.digests[0][:8]}"


@dataclass(frozen=True)
class Planned:
    """An experiment at the chosen scale."""

    experiment: Experiment
    path: Path
    looks: tuple[list[tuple[Cell, str]], ...]
    """For each look, each cell with the digest of its run; one look where the seeds are listed."""

    @property
    def cells(self) -> list[tuple[Cell, str]]:
        """Each cell with the digest of its run, at the first look."""
        return self.looks[0]

    def at(self, counts: Sequence[int]) -> list[tuple[Cell, str]]:
        """Each cell with the digest of its run; counts: per cell, the number of its look, from 0."""
        return [self.looks[look][i] for i, look in enumerate(counts)]


@dataclass(frozen=True)
class Plan:
    """Everything the workflow's rules are made from."""

    scale: Scale
    experiments: dict[str, Experiment]
    """All experiments of the folder."""
    paths: dict[str, Path]
    selected: dict[str, Planned]
    jobs: list[WorkflowJob]
    growing: frozenset[str]
    """Digests of runs to which seeds may be added: an experiment of the folder, selected or not, looks at them."""

    @property
    def origins(self) -> dict[str, str]:
        """Digest of each run that a job computes -> an experiment that asks for it."""
        return {digest: job.experiment for job in self.jobs for digest in job.digests}

    @property
    def with_looks(self) -> dict[str, Planned]:
        """The selected experiments whose seeds are added look by look."""
        return {name: planned for name, planned in self.selected.items() if len(planned.looks) > 1}


def make_plan(folder: str | Path, scale: str, only: Iterable[str] = (), results: str | Path = "results") -> Plan:
    """Plan the experiments below `folder` at a scale.

    only: names of experiments (`nbafl/fig2`) or of folders (`nbafl`); none: all, at quick scale without those that run
    `on_request`. Raises ScenarioError with the faults of every faulty file, or where `only` names nothing that is
    there; OutputError where results cannot be written.
    """
    chosen: Scale | None = next((known for known in SCALES if known == scale), None)
    if chosen is None:
        raise ScenarioError([Fault("scale", f"must be one of {', '.join(SCALES)}, got {scale!r}")])
    check_writable(results)
    paths = find(folder)
    experiments = load_all(paths)
    only = [item for item in only if item.strip()]
    names = select(list(paths), only)
    if chosen == "quick" and not only:
        names = [name for name in names if not experiments[name].on_request]
    # Also of those that look at their cells and are not selected: their runs may be grown.
    planned = {
        name: Planned(
            experiment,
            paths[name],
            tuple([(cell, cell.scenario.digest()) for cell in look] for look in all_cells(experiment, chosen)),
        )
        for name, experiment in experiments.items()
        if name in names or len(experiment.seeds.looks(chosen).at) > 1
    }
    selected = {name: planned[name] for name in names}
    looked_at = chain.from_iterable(chain(*one.looks) for one in planned.values() if len(one.looks) > 1)
    growing = frozenset(digest for cell, digest in looked_at if cell.recording is None)
    return Plan(chosen, experiments, paths, selected, _jobs(selected, Path(results) / "runs"), growing)


def all_cells(experiment: Experiment, scale: Scale) -> Iterator[list[Cell]]:
    """Yield the cells of an experiment at each of its looks."""
    for seeds in experiment.seeds.looks(scale).at or (None,):
        yield cells(experiment, scale, seeds)


def runs_among(experiment: Experiment, scale: Scale, digests: Container[str]) -> list[tuple[Cell, str]]:
    """Each cell with the digest of its run, that of the latest look that is among `digests`."""
    found: dict[int, tuple[Cell, str]] = {}
    for at_look in all_cells(experiment, scale):
        for i, cell in enumerate(at_look):
            digest = cell.scenario.digest()
            if i not in found or digest in digests:
                found[i] = cell, digest
    return list(found.values())


def read_looks(path: str | Path) -> dict[str, list[int]]:
    """Experiment -> how many looks were made at each of its cells, from 0."""
    looks: dict[str, list[int]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return looks


def load_all(paths: Mapping[str, Path], check: bool = True) -> dict[str, Experiment]:
    """Name -> experiment; `check` as for `load`. Raises ScenarioError with the faults of all files."""
    loaded, faults, sources = {}, [], []
    for name, path in paths.items():
        try:
            loaded[name] = load(path, name, check)
        except ScenarioError as error:
            sources.append(path)
            faults += [(path, fault) for fault in error.faults]
    if len(sources) == 1:
        raise ScenarioError([fault for _, fault in faults], sources[0])
    if faults:
        raise ScenarioError([Fault(f"{path}: {fault.field}".rstrip(": "), fault.message) for path, fault in faults])
    return loaded


def select(names: list[str], only: Iterable[str]) -> list[str]:
    """The names that `only` asks for, all of them for nothing asked. Raises ScenarioError for what is not there."""
    wanted = [item.strip().strip("/") for item in only if item.strip()]
    faults = [
        Fault("only", f"there is no experiment {item!r} (experiments: {', '.join(names)})")
        for item in wanted
        if not any(_asked(name, item) for name in names)
    ]
    if faults:
        raise ScenarioError(faults)
    return [name for name in names if not wanted or any(_asked(name, item) for item in wanted)]


def _asked(name: str, item: str) -> bool:
    return name == item or name.startswith(f"{item}/")


def check_writable(folder: str | Path) -> None:
    """Raises OutputError where results could not be written below `folder`, or only over files of others."""
    place = Path(folder).absolute()
    above = next(parent for parent in (place, *place.parents) if parent.exists())
    try:
        # permissions alone do not tell: file systems may be read-only, and root passes every check of them
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise OutputError(
            f"results folder {folder}: {above}: {system_says(error)}; choose another with --config results=DIR"
        ) from None
    # A job writes its log before anything else.
    if not (place / "logs" / "report_on_claims.log").exists():
        foreign = [name for name in REPORT_FILES if (place / name).exists()]
        if foreign:
            raise OutputError(
                f"results folder {folder}: {', '.join(foreign)} in it is not of this workflow; "
                "move it away, or choose another folder with --config results=DIR"
            )


def _jobs(selected: Mapping[str, Planned], runs: Path) -> list[WorkflowJob]:
    """Jobs in the order of the experiments; those of later looks, of which only some are wanted, at the end.

    A run that is on disk is a job of its own, so that it is not computed again for the sake of another one; it keeps
    the code of the job that it was computed in while its own is the same.
    """
    seen: set[str] = set()
    jobs: list[WorkflowJob] = []
    later = [(name, chain(*planned.looks[1:]), True) for name, planned in selected.items()]
    for name, found, alone in [*((name, planned.cells, False) for name, planned in selected.items()), *later]:
        waiting: list[WorkflowJob] = []
        for cell, digest in found:
            if digest in seen or cell.recording is not None:
                continue
            seen.add(digest)
            # As it is settled: an attack that nobody carries out is not among the code of the run.
            code = code_digest(cell.scenario.settled())
            is_whole = (runs / digest / COMPLETE).is_file()
            made = read_codes(runs / digest) if is_whole else None
            kept = is_whole and (made is None or made.own == code)
            # Where the code differs from what Snakemake remembers of these files, it computes them again.
            job = WorkflowJob(name, (digest,), made.job if kept and made else code, cell.scenario.estimated_cost())
            (jobs if kept or alone else waiting).append(job)
        jobs += _filled(waiting)
    return jobs


def _filled(runs: list[WorkflowJob]) -> list[WorkflowJob]:
    """Jobs of single runs, put together in their order until a job is full."""
    full: list[list[WorkflowJob]] = []
    load_s = math.inf
    for run in runs:
        if load_s + run.cost_s > JOB_SECONDS:
            full.append([])
            load_s = 0.0
        full[-1].append(run)
        load_s += run.cost_s
    return [
        WorkflowJob(
            of[0].experiment,
            tuple(run.digests[0] for run in of),
            combined([run.code for run in of]),
            sum(run.cost_s for run in of),
        )
        for of in full
    ]


def scenarios(folder: str | Path, scale: str, wanted: Mapping[str, str]) -> dict[str, Scenario]:
    """Digest -> scenario, looked up in the experiment files.

    wanted: digest -> the experiment that has it, see `Plan.origins`: a job reads no other files. Raises ScenarioError
    where a file changed meanwhile.
    """
    chosen: Scale = next(known for known in SCALES if known == scale)
    paths = find(folder)
    found: dict[str, Scenario] = {}
    for name in sorted(set(wanted.values()) & set(paths)):
        experiment = load(paths[name], name, check=False)
        for cell in chain.from_iterable(all_cells(experiment, chosen)):
            digest = cell.scenario.digest()
            if digest in wanted and cell.recording is None:
                found[digest] = cell.scenario
    if wanted.keys() - found.keys():
        raise ScenarioError("changed while the workflow ran; start it again", folder)
    return found


def index_rows(experiments: Mapping[str, Experiment]) -> list[dict[str, Any]]:
    """Rows of runs/index.csv: which experiment, scale and axis values each run belongs to."""
    return [
        {
            "run": cell.scenario.digest(),
            "experiment": name,
            "scale": scale,
            "cell": json.dumps(cell.values, sort_keys=True, default=str),
        }
        for name, experiment in experiments.items()
        for scale in SCALES
        for at_look in all_cells(experiment, scale)
        for cell in at_look
        if cell.recording is None
    ]
