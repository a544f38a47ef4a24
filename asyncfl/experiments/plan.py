"""The plan of a call of the workflow: the runs of the selected experiments, and which of them share a job.

Runs are known by the digest of their scenario, so equal cells of different experiments are one run. Runs that are cheap
share a job, as a process costs more than a second before it trains; how cheap is estimated from the scenario alone, and
a job holds runs of one experiment, so that an edit of another experiment changes no job. Runs of a job may depend on
different code (one attack or another): each says on disk which, and only those whose own code has changed are computed
again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

from asyncfl.base.errors import Fault, InputError, MissingDataError, OutputError, ScenarioError, system_says
from asyncfl.base.files.atomic import check_writable_below
from asyncfl.data.catalog import DATA_DIR
from asyncfl.data.download import downloads_refused
from asyncfl.experiments.cells import Cell, cells
from asyncfl.experiments.code import STEPS, code_digest, combined, step_digest
from asyncfl.experiments.files import find, rule_name
from asyncfl.experiments.job import read_codes
from asyncfl.experiments.loading import check_cells, load
from asyncfl.experiments.plan_cache import kept
from asyncfl.experiments.report import PAPERS
from asyncfl.experiments.spec import SCALES, Experiment, Scale
from asyncfl.results.storage import COMPLETE, TABLES
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import memory_bytes

RUN_FILES = ("scenario.yaml", *(f"{name}.parquet" for name in TABLES), COMPLETE, "timing.json")
WORKER_SECONDS = 20.0
"""Estimated seconds of a run for which a further process is worth its start."""
REPORT_FILES = ("index.html", "claims.md", "claims.csv")
"""Files at the top of the results folder that the report replaces, beside the folder of pages."""


@dataclass(frozen=True)
class WorkflowJob:
    """Runs that one process computes, one after another."""

    experiment: str
    """The first experiment that asks for them."""
    digests: tuple[str, ...]
    code: str
    """Digest of the code that the runs depend on, of all of them together."""
    cost_s: float = 0.0
    """Estimated seconds of the runs."""
    codes: tuple[str, ...] = ()
    """Digest of the code of each run."""
    memory_bytes: float = 0.0
    """Estimated memory of the largest run."""
    on_disk: bool = False
    """Whether the runs are there already."""

    @property
    def name(self) -> str:
        """Name of its rule: experiment and first run."""
        return f"{rule_name('run', self.experiment)}_{self.digests[0][:8]}"

    @property
    def minutes(self) -> int:
        """Minutes to reserve on a cluster: the start of a process, and three times the estimate."""
        return math.ceil(5 + 3 * self.cost_s / 60)

    @property
    def memory_mb(self) -> int:
        """Megabytes to reserve on a cluster: those of any process, and twice the estimate."""
        return math.ceil(1000 + 2 * self.memory_bytes / 1e6)


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment at the chosen scale."""

    experiment: Experiment
    path: Path
    looks: tuple[list[Cell], ...]
    """The cells at each look; one look where the seeds are listed."""

    @property
    def cells(self) -> list[Cell]:
        return self.looks[0]

    def at(self, counts: Sequence[int]) -> list[Cell]:
        """Return each cell at its look. counts: number of the look, from 0, per cell."""
        return [self.looks[look][i] for i, look in enumerate(counts)]


@dataclass(frozen=True)
class Plan:
    """Contents of the workflow's rules."""

    scale: Scale
    experiments: dict[str, Experiment]
    """All experiments of the folder."""
    paths: dict[str, Path]
    selected: dict[str, PlannedExperiment]
    jobs: list[WorkflowJob]
    growing: frozenset[str]
    """Digests of runs to which seeds may be added: an experiment of the folder, selected or not, looks at them."""
    without_data: dict[str, str]
    """Experiment that is asked for and cannot be run, as its data are not on disk -> the reason in words."""
    steps: dict[str, str]
    """Step of the workflow after the runs -> digest of its code."""

    @property
    def origins(self) -> dict[str, str]:
        """Digest of each run that a job computes -> an experiment that asks for it."""
        return {digest: job.experiment for job in self.jobs for digest in job.digests}

    @property
    def codes(self) -> dict[str, str]:
        """Digest of each run that a job computes -> digest of its code."""
        return {digest: code for job in self.jobs for digest, code in zip(job.digests, job.codes, strict=True)}

    def threads(self, job: WorkflowJob, cores: int) -> int:
        """Return how many of `cores` train the runs of a job: its share of what is to be computed, so that a long run
        does not go on alone on one core when all others have ended."""
        open_s = sum(one.cost_s for one in self.jobs if not one.on_disk)
        share = round(cores * job.cost_s / max(open_s, job.cost_s, 1e-9))
        return max(1, min(share, int(job.cost_s / len(job.digests) / WORKER_SECONDS)))

    @property
    def with_looks(self) -> dict[str, PlannedExperiment]:
        """The selected experiments whose seeds are added look by look."""
        return {name: planned for name, planned in self.selected.items() if len(planned.looks) > 1}


def make_plan(
    folder: str | Path,
    scale: str,
    only: Iterable[str] = (),
    results: str | Path = "results",
    job_s: float = 240.0,
    write: bool = True,
    cached: bool = False,
) -> Plan:
    """Plan the experiments below `folder` at a scale.

    job_s: estimated seconds up to which runs share a job. write: whether results are to be written, and not only
    planned. cached: whether what an earlier process has planned is used if nothing has changed since, see `plan_cache`.
    only: names of experiments (`nbafl/fig2`) or of folders (`nbafl`); none: all, at quick scale without those that run
    `on_request`. Nothing is downloaded: an experiment whose data are missing is not run. Raises ScenarioError with the
    faults of every selected file, or where `only` names nothing that exists; OutputError where results cannot be
    written.
    """
    chosen: Scale | None = next((known for known in SCALES if known == scale), None)
    if chosen is None:
        raise ScenarioError([Fault("scale", f"must be one of {', '.join(SCALES)}, got {scale!r}")])
    if write:
        check_writable(results)
    only = [item.strip().strip("/") for item in only if item.strip()]

    def make() -> tuple[SelectedRuns, bool]:
        return _select_runs(folder, chosen, only)

    question = f"plan of {chosen} {sorted(only)} in {folder}"
    places = [Path(folder).absolute(), Path(folder).absolute().parent / "papers"]
    found = kept(question, places, make) if cached else make()[0]
    jobs = _jobs(found.selected, found.runs, Path(results) / "runs", job_s)
    return Plan(
        *(chosen, found.experiments, found.paths, found.selected, jobs),
        *(found.growing, found.without_data, found.steps),
    )


@dataclass(frozen=True)
class RunEstimate:
    """Properties of a run that follow from its scenario and the code."""

    code: str
    """Digest of its code."""
    cost_s: float
    memory_bytes: float


@dataclass(frozen=True)
class SelectedRuns:
    """The selected experiments and their runs, without regard to what is on disk; fields as in `Plan`."""

    experiments: dict[str, Experiment]
    paths: dict[str, Path]
    selected: dict[str, PlannedExperiment]
    growing: frozenset[str]
    without_data: dict[str, str]
    runs: dict[str, RunEstimate]
    """Digest of each run of the selected experiments that is computed -> its estimate."""
    steps: dict[str, str]


def _select_runs(folder: str | Path, scale: Scale, only: Sequence[str]) -> tuple[SelectedRuns, bool]:
    """Return the selected experiments, and whether all experiments that could add to them were sound."""
    paths = find(folder)
    experiments = load_all(paths, check=False)
    names = select(list(paths), only)
    if scale == "quick" and not only:
        names = [name for name in names if not experiments[name].on_request]
    selected, growing, sound = {}, set(), True
    with downloads_refused():
        without_data = _check({name: experiments[name] for name in names}, paths, scale)
        for name, experiment in experiments.items():
            looks_at_cells = len(experiment.seeds.looks(scale).at) > 1
            if name in without_data or (name not in names and not looks_at_cells):
                continue
            try:
                looks = tuple(all_cells(experiment, scale))
            except InputError:
                if name in names:
                    raise
                sound = False
                continue  # nobody asks for an experiment that is faulty, or whose data are missing
            if name in names:
                selected[name] = PlannedExperiment(experiment, paths[name], looks)
            if looks_at_cells:
                growing |= {cell.digest for cell in chain(*looks) if cell.recording is None}
        computed = [cell for planned in selected.values() for cell in chain(*planned.looks) if cell.recording is None]
        runs = {digest: _estimate(cell.scenario) for digest, cell in {cell.digest: cell for cell in computed}.items()}
    steps = {step: step_digest(step) for step in STEPS}
    return SelectedRuns(experiments, paths, selected, frozenset(growing), without_data, runs, steps), sound


def _estimate(scenario: Scenario) -> RunEstimate:
    # As it is settled: an attack that no client carries out is not among the code of the run.
    return RunEstimate(code_digest(scenario.settled()), scenario.estimated_cost(), memory_bytes(scenario))


def _check(experiments: Mapping[str, Experiment], paths: Mapping[str, Path], scale: Scale) -> dict[str, str]:
    """Check the cells of experiments; return those whose data at `scale` are not on disk, and the reason in words.

    Raises ScenarioError with the faults of all files.
    """
    without_data, failed = {}, {}
    for name, experiment in experiments.items():
        try:
            check_cells(experiment, paths[name], scale)
        except MissingDataError as error:
            fetched = f"asyncfl data fetch {' '.join(error.missing)}"
            without_data[name] = f"needs {', '.join(error.missing.values())} on disk: {fetched}, or set {DATA_DIR}"
        except ScenarioError as error:
            failed[paths[name]] = error
    _raise_together(failed)
    return without_data


def all_cells(experiment: Experiment, scale: Scale) -> Iterator[list[Cell]]:
    """Yield the cells of an experiment at each of its looks."""
    for seeds in experiment.seeds.looks(scale).at or (None,):
        yield cells(experiment, scale, seeds)


def runs_among(experiment: Experiment, scale: Scale, digests: Container[str]) -> list[Cell]:
    """Return each cell at the latest look whose run is among `digests`."""
    looks = zip(*all_cells(experiment, scale), strict=True)
    return [next((cell for cell in at[:0:-1] if cell.digest in digests), at[0]) for at in looks]


def read_looks(path: str | Path) -> dict[str, list[int]]:
    """Read experiment -> number of looks made at each of its cells, from 0."""
    looks: dict[str, list[int]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return looks


def load_all(paths: Mapping[str, Path], check: bool = True) -> dict[str, Experiment]:
    """Return name -> experiment; `check` as for `load`. Raises ScenarioError with the faults of all files."""
    loaded, failed = {}, {}
    for name, path in paths.items():
        try:
            loaded[name] = load(path, name, check)
        except ScenarioError as error:
            failed[path] = error
    _raise_together(failed)
    return loaded


def _raise_together(failed: Mapping[Path, ScenarioError]) -> None:
    """Raise one error with the faults of several files; none for no file."""
    if len(failed) == 1:
        raise next(iter(failed.values()))
    if failed:
        faults = [(f"{path}: {fault.field}", fault.message) for path, of in failed.items() for fault in of.faults]
        raise ScenarioError([Fault(place.rstrip(": "), message) for place, message in faults])


def select(names: list[str], only: Sequence[str]) -> list[str]:
    """Return the names that `only` asks for; all of them for nothing. Raises ScenarioError for unknown ones."""
    asked = {item: [name for name in names if f"{name}/".startswith(f"{item}/")] for item in only}
    listed = ", ".join(names)
    faults = [
        Fault("only", f"there is no experiment {item!r} (experiments: {listed})") for item in asked if not asked[item]
    ]
    if faults:
        raise ScenarioError(faults)
    return [name for name in names if not only or any(name in found for found in asked.values())]


def check_writable(folder: str | Path) -> None:
    """Raise OutputError where results could not be written below `folder`, or only over files of others.

    A link in place of the pages' folder is refused: Snakemake empties the folder, wherever it leads to.
    """
    place = Path(folder).absolute()
    try:
        check_writable_below(place)
    except OSError as error:
        raise OutputError(
            f"results folder {folder}: {error.filename}: {system_says(error)}; choose another with --config results=DIR"
        ) from None
    if link := next((one for one in (place / PAPERS, place / PAPERS / "runs") if one.is_symlink()), None):
        raise OutputError(f"results folder {folder}: {link} is a link, and what is in it is replaced; remove the link")
    # A job writes its log before any other file; Snakemake has made the folders by then.
    foreign = [name for name in REPORT_FILES if (place / name).exists()]
    foreign += [PAPERS] if any(path.is_file() for path in (place / PAPERS).rglob("*")) else []
    if foreign and not (place / "logs" / "report_on_claims.log").exists():
        raise OutputError(
            f"results folder {folder}: {', '.join(foreign)} in it is not of this workflow; "
            "move it away, or choose another folder with --config results=DIR"
        )


def _jobs(
    selected: Mapping[str, PlannedExperiment], estimates: Mapping[str, RunEstimate], runs: Path, job_s: float
) -> list[WorkflowJob]:
    """Return jobs in the order of the experiments; those of later looks, of which only some are wanted, at the end.

    A run that is on disk is a job of its own, so that it is not computed again for the sake of another one; it keeps
    the code of the job that it was computed in while its own is the same. The others share jobs as if none were on
    disk: a job on a node of a cluster plans again, when others have finished, and must find itself in the plan.
    """
    seen: set[str] = set()
    jobs: list[WorkflowJob] = []
    first = [(name, iter(planned.cells), False) for name, planned in selected.items()]
    later = [(name, chain(*planned.looks[1:]), True) for name, planned in selected.items()]
    for name, found, alone in [*first, *later]:
        alike: list[WorkflowJob] = []
        on_disk: set[str] = set()
        for cell in found:
            digest = cell.digest
            if digest in seen or cell.recording is not None:
                continue
            seen.add(digest)
            of = estimates[digest]
            code = of.code
            is_whole = (runs / digest / COMPLETE).is_file()
            made = read_codes(runs / digest) if is_whole else None
            is_kept = is_whole and (made is None or made.own == code)
            # Where the code differs from what Snakemake remembers of these files, it computes them again.
            known = made.job if is_kept and made else code
            job = WorkflowJob(name, (digest,), known, of.cost_s, (code,), of.memory_bytes, is_kept)
            if is_kept or alone:
                jobs.append(job)
                on_disk.add(digest)
            if not alone:
                alike.append(job)
        jobs += _filled(alike, on_disk, job_s)
    return jobs


def _filled(runs: list[WorkflowJob], on_disk: Container[str], job_s: float) -> list[WorkflowJob]:
    """Return jobs of single runs, put together in their order until a job is full, without those that are on disk."""
    full: list[list[WorkflowJob]] = []
    load_s = math.inf
    for run in runs:
        if load_s + run.cost_s > job_s:
            full.append([])
            load_s = 0.0
        full[-1].append(run)
        load_s += run.cost_s
    waiting = [[run for run in of if run.digests[0] not in on_disk] for of in full]
    return [
        WorkflowJob(
            of[0].experiment,
            tuple(run.digests[0] for run in of),
            combined([run.code for run in of]),
            sum(run.cost_s for run in of),
            tuple(run.code for run in of),
            max(run.memory_bytes for run in of),
        )
        for of in waiting
        if of
    ]


def scenarios(folder: str | Path, scale: str, wanted: Mapping[str, str]) -> dict[str, Scenario]:
    """Return digest -> scenario, looked up in the experiment files.

    wanted: digest -> the experiment that has it, see `Plan.origins`: a job reads no other files. Raises ScenarioError
    where a file changed meanwhile.
    """
    chosen: Scale = next(known for known in SCALES if known == scale)
    paths = find(folder)
    found: dict[str, Scenario] = {}
    for name in sorted(set(wanted.values()) & set(paths)):
        for cell in chain(*all_cells(load(paths[name], name, check=False), chosen)):
            if cell.digest in wanted and cell.recording is None:
                found[cell.digest] = cell.scenario
    if wanted.keys() - found.keys():
        raise ScenarioError("changed while the workflow ran; start it again", folder)
    return found


def index_rows(experiments: Mapping[str, Experiment]) -> list[dict[str, Any]]:
    """Return the rows of runs/index.csv: experiment, scale and axis values of each run.

    Experiments that are faulty, or whose data are missing, have none.
    """
    rows: list[dict[str, Any]] = []
    for (name, experiment), scale in product(experiments.items(), SCALES):
        with downloads_refused(), suppress(InputError):
            rows += [
                {
                    "run": cell.digest,
                    "experiment": name,
                    "scale": scale,
                    "cell": json.dumps(cell.values, sort_keys=True, default=str),
                }
                for cell in chain(*all_cells(experiment, scale))
                if cell.recording is None
            ]
    return rows
