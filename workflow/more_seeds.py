"""Add seeds to what is published: `python workflow/more_seeds.py adaptive/heterogeneity --core-hours 1`.

Claims that are still open get the seeds of their next look, as the workflow adds them, and the seeds that are published
stay, with the commits that made them. The code may have changed since, and the machine is another one: a published seed
is computed anew first, and nothing is added where its numbers come out otherwise.

What was measured at every version is published of few experiments. Claims on it are judged anew where all seeds of
their cells are computed anew, which `--anew` asks for.

`--cells` publishes cells that are not there yet, with the seeds of their first look: an experiment that is too long for
the hours at hand is published cell by cell.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import yaml

if __name__ == "__main__":  # as one thread each trains: numbers do not depend on how many there are
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from asyncfl.api import execute  # noqa: E402
from asyncfl.base.description import explicit_fields  # noqa: E402
from asyncfl.base.errors import AsyncflError, Fault, RunError, ScenarioError  # noqa: E402
from asyncfl.base.files.own_folder import write_json  # noqa: E402
from asyncfl.experiments.analysis import CAPTIONS, make_figures, make_tables  # noqa: E402
from asyncfl.experiments.cells import Cell  # noqa: E402
from asyncfl.experiments.code import code_digest, combined  # noqa: E402
from asyncfl.experiments.csv_files import FORMAT, is_table, plain, read_csv, write_csv  # noqa: E402
from asyncfl.experiments.experiment_tables import collect, read_run  # noqa: E402
from asyncfl.experiments.grid import Grid, Where, describe, select  # noqa: E402
from asyncfl.experiments.intervals import over_seeds  # noqa: E402
from asyncfl.experiments.job import commit as commit_of  # noqa: E402
from asyncfl.experiments.job import publish, read_codes  # noqa: E402
from asyncfl.experiments.next_looks import granted, hours, wishes_of  # noqa: E402
from asyncfl.experiments.plan import all_cells  # noqa: E402
from asyncfl.experiments.site.contents import PROVENANCE  # noqa: E402
from asyncfl.experiments.spec import Experiment  # noqa: E402
from asyncfl.experiments.verdicts import ROUNDS, with_new_axes  # noqa: E402
from asyncfl.results.storage import COMPLETE, RunFolder  # noqa: E402
from asyncfl.scenario import Scenario  # noqa: E402
from workflow.publish import (  # noqa: E402
    LARGEST_ROUNDS,
    Provenance,
    Publisher,
    checksums,
    code_of,
    commit,
    looks_of,
    published_cells,
    runs_in,
    seconds_of,
)
from workflow.published import is_there  # noqa: E402

IN_PART = ROUNDS[-1]
OF_FIRST = " Drawn before seeds were added."
"""End of the caption of a figure that does not show all seeds of the tables."""
EARLY = 12
"""Versions over which two codes are compared on one machine."""
CLOSE = 1e-5
"""Relative difference up to which a seed that is computed anew has come out as published."""
TINY = 1e-6
"""Size of a number below which its difference counts as that of one of this size."""


@dataclass(frozen=True)
class Addition:
    """A cell, and the seeds that it gets."""

    cell: Cell
    """At the look that it reaches."""
    published: tuple[int, ...]
    """Empty for a cell that is new."""
    seeds: tuple[int, ...]
    """To be computed: new ones, or all."""

    @property
    def scenario(self) -> Scenario:
        return self.cell.scenario.override({"seeds": list(self.seeds)})

    @property
    def check(self) -> Scenario:
        """The scenario with the first of the published seeds alone."""
        return self.cell.scenario.override({"seeds": [self.published[0]]})


@dataclass(frozen=True)
class PublishedTables:
    """What is published of an experiment, if anything is."""

    experiment: Experiment
    folder: Path

    @cached_property
    def looks(self) -> list[list[Cell]]:
        return list(all_cells(self.experiment, "full"))

    @cached_property
    def ends(self) -> pd.DataFrame:
        return with_new_axes(self.experiment, read_csv(self.folder / "ends.csv"))

    @cached_property
    def rounds(self) -> pd.DataFrame | None:
        there = is_there(self.folder, "rounds")
        return with_new_axes(self.experiment, read_csv(self.folder / "rounds.csv")) if there else None

    @cached_property
    def seeds(self) -> list[tuple[int, ...]]:
        """Published seeds of each cell; none where it is not published."""
        if not is_there(self.folder, "ends"):
            return [()] * len(self.looks[0])
        return [tuple(sorted(self.ends["seed"][select(self.ends, cell.values)])) for cell in self.looks[0]]

    @cached_property
    def counts(self) -> list[int]:
        """Looks made at each cell, from 0; the last one where it is not published, so that it gets none."""
        reached = []
        for number, seeds in enumerate(self.seeds):
            made = [k for k, look in enumerate(self.looks) if set(look[number].scenario.seeds) <= set(seeds)]
            reached.append(made[-1] if made else len(self.looks) - 1)
        return reached

    def wanted(self, core_hours: float, where: Where) -> list[Addition]:
        """Return the new seeds of cells at `where` that open claims want, the likeliest answers for the hours first."""
        name = self.experiment.name
        grid = Grid(self.experiment.grid("full"), self.rounds, self.ends)
        wishes = wishes_of(self.experiment, "full", grid, [cell.values for cell in self.looks[0]])
        last = len(self.looks) - 1
        others = {
            number
            for number, (cell, look) in enumerate(zip(self.looks[0], self.counts, strict=True))
            if look < last and not fits(cell, where)
        }
        wishes = [wish for wish in wishes if not wish.cells & others]
        before = sum(self._cost(number, look) for number, look in enumerate(self.counts))
        after = granted(wishes, {name: self.counts}, {name: self.looks}, before + core_hours * 3600)[name]
        return [
            Addition(cell := self.looks[look][number], there, tuple(s for s in cell.scenario.seeds if s not in there))
            for number, (look, there) in enumerate(zip(after, self.seeds, strict=True))
            if look > self.counts[number]
        ]

    def anew(self, where: Where, fewest: int) -> list[Addition]:
        """Return all seeds of each published cell at `where`: those of its look, and of later ones up to `fewest`."""
        at = self.experiment.seeds.looks("full").at or (fewest,)
        wanted = next((k for k, seeds in enumerate(at) if seeds >= fewest), len(at) - 1)
        found = []
        for number, (look, there) in enumerate(zip(self.counts, self.seeds, strict=True)):
            if there and fits(cell := self.looks[max(look, wanted)][number], where):
                found.append(Addition(cell, there, cell.scenario.seeds))
        return found

    def missing(self, where: Where) -> list[Addition]:
        """Return the seeds of the first look of each cell at `where` that is not published. A recording is no run."""
        return [
            Addition(cell, (), cell.scenario.seeds)
            for cell, there in zip(self.looks[0], self.seeds, strict=True)
            if not there and cell.recording is None and fits(cell, where)
        ]

    def _cost(self, number: int, look: int) -> float:
        """Return the estimated seconds of a cell's seeds after its first look, up to a look."""
        first, then = (self.looks[k][number].scenario.estimated_cost() for k in (0, look))
        return then - first


def fits(cell: Cell, where: Where) -> bool:
    return all(in_words(cell.values[axis]) in values for axis, values in where.items())


def in_words(value: Any) -> str:
    """Return an axis value as `--where` names it: whole numbers without a point, others as tables hold them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else str(plain(value))


class MoreSeeds:
    """Adds seeds and cells to what a publisher has published."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher, self.runs = publisher, publisher.results / "runs"

    def additions(self, name: str, core_hours: float, where: Where, anew: int, cells: bool = False) -> list[Addition]:
        """Return what an experiment gets: seeds of the next look within `core_hours`, all seeds `anew`, or `cells`.

        Raises ScenarioError where it is not published, or cannot be added to.
        """
        experiment, folder = self.publisher.experiments[name], self.publisher.folder(name)
        if name not in self.publisher.published() and not cells:
            raise ScenarioError(
                [Fault(name, "is not published yet: make publish computes it, --cells its cells at --where")]
            )
        if experiment.pictures is not None or experiment.membership is not None:
            raise ScenarioError([Fault(name, "reads attacks on its runs, to which no seeds can be added")])
        if experiment.scenario is None:
            raise ScenarioError([Fault(name, "has formulas alone, and no seeds")])
        axes = experiment.grid("full")
        for axis, values in where.items():
            if axis not in axes:
                raise ScenarioError([Fault("--where", f"{name} has no axis {axis}; axes are {', '.join(axes)}")])
            known = [in_words(value) for value in axes[axis]]
            if unknown := [value for value in values if value not in known]:
                raise ScenarioError(
                    [Fault("--where", f"{axis} is one of {', '.join(known)}, got {', '.join(unknown)}")]
                )
        tables = PublishedTables(experiment, folder)
        if cells:
            return tables.missing(where)
        return tables.anew(where, anew) if anew else tables.wanted(core_hours, where)

    def compute(self, additions: Sequence[Addition], cores: int, told: Callable[[str], None] = print) -> None:
        """Compute the runs that are not on disk, the longest first. Raises RunError."""
        runs = {one.digest(): one for one in (of.scenario for of in additions)}
        open_ones = [one for digest, one in runs.items() if not is_made(self.runs / digest, one)]
        open_ones.sort(key=lambda one: -one.estimated_cost())
        with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
            for number, seconds in enumerate(pool.map(compute_run, open_ones, [self.runs] * len(open_ones)), 1):
                told(f"{number} of {len(open_ones)} runs, {seconds:.0f} s")

    def check(self, name: str, additions: Sequence[Addition], checkout: Path | None = None) -> str:
        """Compute a published seed anew, of the cheapest cell of each code that runs are made by, and return in words
        how they came out.

        checkout: of a commit that made published seeds. Where a number differs, as another CPU rounds otherwise and
        training amplifies that, the first versions by its code and by this one, both here, are compared instead.
        Raises RunError where a number differs by more than `CLOSE`, the data are others, or `checkout` is of another
        commit.
        """
        published = self.publisher.published().get(name)
        if published is None:
            return "nothing was published before"
        now = checksums(of.cell for of in additions)
        if others := [file for file, digest in published.data.items() if now.get(file, digest) != digest]:
            raise RunError(f"{name}: data are others than published: {', '.join(others)}")
        by_code: dict[tuple[str, str], Addition] = {}
        for of in sorted(self._known(name, additions), key=lambda one: -one.check.estimated_cost()):
            by_code[code_digest(of.scenario.settled()), str(of.scenario.data.names)] = of
        alike, apart = 0, 0
        for of in by_code.values():
            compute_run(of.check, self.runs)
            if (where := self._difference(name, of)) is None:
                alike += 1
                continue
            if checkout is None:
                raise RunError(
                    f"{name}: {describe(of.cell.values)}: seed {of.published[0]} does not come out as published: "
                    f"{where}; compute it anew (make publish), or give --checkout with {published.commits[0]}, which "
                    "shows whether code does the same"
                )
            if (at := commit_of(checkout)) not in published.commits:
                raise RunError(
                    f"--checkout: {checkout} must hold a commit that made the seeds ({', '.join(published.commits)}), "
                    f"unchanged, got {at or 'no commit'}"
                )
            early = of.check.override({"protocol.rounds": EARLY})
            was, now = (first_versions(early, code, self.runs.parent / ".cache") for code in (checkout, ROOT))
            if (where := difference(was, now)) is not None:
                raise RunError(
                    f"{name}: {describe(of.cell.values)}: the code in {checkout} and this one differ over the first "
                    f"{EARLY} versions: {where}"
                )
            apart += 1
        if not by_code:
            return "the published cells were made by the code of today"
        told = f"{alike} of {len(by_code)} published seeds come out as before, all numbers within {CLOSE:g}"
        if not apart:
            return told
        return f"{told}; of the others this machine rounds otherwise, and both codes do the same for {EARLY} versions"

    def _known(self, name: str, additions: Sequence[Addition]) -> list[Addition]:
        """Return the cells of `additions` with published seeds. Where all are new, these are all published cells,
        beside which they will stand; none where today's code made them."""
        if found := [of for of in additions if of.published]:
            return found
        experiment, folder = self.publisher.experiments[name], self.publisher.folder(name)
        cells = published_cells(experiment, set(runs_in(folder)))
        if cells is not None and self.publisher.published()[name].code == code_of(cells):
            return []
        tables = PublishedTables(experiment, folder)
        there = zip(tables.looks[0], tables.seeds, strict=True)
        return [Addition(cell, seeds, seeds) for cell, seeds in there if seeds and cell.recording is None]

    def _difference(self, name: str, of: Addition) -> str | None:
        """Return where a seed that was computed anew differs from the published one; None: nowhere."""
        experiment, folder = self.publisher.experiments[name], self.publisher.folder(name)
        made = collect([(of.cell.values, self.runs / of.check.digest())], experiment.targets)
        cells, ends = (read_csv(folder / f"{table}.csv") for table in ("cells", "ends"))
        cells, ends = (with_new_axes(experiment, table) for table in (cells, ends))
        before, now = cells[select(cells, of.cell.values)].iloc[0], made["cells"].iloc[0]
        for column in ("source", "original", "provenance"):
            was, found = str(before[column]).replace("nan", ""), str(now[column])
            if was != found:
                raise RunError(f"{name}: data are others than published: {column} was {was!r}, now {found!r}")
        told = ends[select(ends, of.cell.values) & (ends["seed"] == of.published[0])]
        return difference(told, made["ends"])

    def publish(self, name: str, additions: Sequence[Addition]) -> None:
        """Put the runs of `additions` into the published tables of an experiment, and judge its claims anew."""
        experiment, folder = self.publisher.experiments[name], self.publisher.folder(name)
        if name not in self.publisher.published():
            self._publish_first(name, additions)
            return
        tables = PublishedTables(experiment, folder)
        made = collect([(of.cell.values, self.runs / of.scenario.digest()) for of in additions], experiment.targets)
        order = [cell.values for cell in tables.looks[0]]
        cells = with_new_cells(with_new_axes(experiment, read_csv(folder / "cells.csv")), made["cells"], order)
        for of in additions:
            cells.loc[select(cells, of.cell.values), "run"] = of.cell.digest
        ends = merged(tables.ends, made["ends"], order)
        new = {"cells": cells, "ends": ends}
        known = read_csv(folder / f"{IN_PART}.csv") if is_there(folder, IN_PART) else pd.DataFrame()
        if tables.rounds is not None:
            rounds = merged(tables.rounds, made["rounds"], order)
            if len(gzip.compress(rounds.to_csv(index=False, float_format=FORMAT).encode(), 9)) <= LARGEST_ROUNDS:
                new["rounds"] = rounds
            else:  # what is drawn and judged remains
                new["curves"] = over_seeds(rounds, list(experiment.grid("full")), by_round=True)
                new[IN_PART] = judged_on(experiment, rounds)
        elif all(set(of.published) <= set(of.seeds) for of in additions):
            every = known.reindex(columns=made["rounds"].columns)
            new[IN_PART] = judged_on(experiment, merged(every, made["rounds"], order))
        with self.publisher.replacing(name, folder) as staging:
            for table in (*new, "rounds"):
                (staging / f"{table}.csv.gz").unlink(missing_ok=True)
                (staging / f"{table}.csv").unlink(missing_ok=True)
            for table, frame in new.items():
                if len(frame):
                    write_csv(frame, staging / f"{table}.csv")
            if is_table(staging / CAPTIONS):  # of figures that were drawn from the rounds of the seeds before
                captions = read_csv(staging / CAPTIONS)
                captions["caption"] = [f"{text.removesuffix(OF_FIRST)}{OF_FIRST}" for text in captions["caption"]]
                write_csv(captions, staging / CAPTIONS)
            told = self._provenance(name, ends, additions)
            write_json(asdict(told), staging / PROVENANCE)
        self.publisher.judge(name)

    def _publish_first(self, name: str, additions: Sequence[Addition]) -> None:
        """Publish the runs of `additions` of an experiment of which nothing is published."""
        experiment, folder = self.publisher.experiments[name], self.publisher.results / "full" / name
        runs = [(of.cell.values, self.runs / of.scenario.digest()) for of in additions]
        make_tables(experiment, "full", runs, folder)
        make_figures(experiment, "full", folder)
        self.publisher.publish(name)

    def _provenance(self, name: str, ends: pd.DataFrame, additions: Sequence[Addition]) -> Provenance:
        published, experiment = self.publisher.published(), self.publisher.experiments[name]
        told, (looks, added) = published[name], looks_of(experiment)
        known = {run for one in published for run in runs_in(self.publisher.folder(one))}
        codes = [found for of in additions if (found := read_codes(self.runs / of.scenario.digest())) is not None]
        new = [of.cell for of in additions if not of.published]
        before = published_cells(experiment, set(runs_in(self.publisher.folder(name))))
        before = before or [of.cell for of in additions if of.published]
        today = code_of([*before, *new])
        # hours of runs that are published already are counted there
        own = {of.scenario.digest() for of in additions if of.cell.digest not in known}
        counts = ends.groupby([axis for axis in experiment.grid("full") if axis in ends], dropna=False)[
            "seed"
        ].nunique()
        fewest, most = int(counts.min()), int(counts.max())
        return replace(
            told,
            commits=sorted({*told.commits, *(found.commit for found in codes)}),
            code=today if told.code == code_of(before) else combined([told.code, today]),
            computed=datetime.now(UTC).date().isoformat(),
            core_hours=round(told.core_hours + sum(seconds_of(self.runs / run) for run in own) / 3600, 3),
            seeds=f"{fewest}" if fewest == most else f"{fewest} to {most}",
            cells=told.cells + len(new),
            cut="",
            data={**told.data, **checksums(new)},
            cpu=sorted({*told.cpu, *(found.cpu for found in codes)}),
            file="",  # that of the experiment, once its claims are judged
            looks=looks,
            added=added,
        )


def merged(published: pd.DataFrame, made: pd.DataFrame, order: Sequence[Where]) -> pd.DataFrame:
    """Return the rows of published and of new seeds, cell by cell and in the order of seeds; new ones replace others.

    Columns that only new seeds of a published cell have are left out, as its published seeds have no values of them.
    """
    parts = []
    for values in order:
        was, now = (of[select(of, values)] if len(of) else of for of in (published, made))
        kept = was[~was["seed"].isin(now["seed"])] if len(now) else was
        both = [part for part in (kept, now.reindex(columns=published.columns) if len(was) else now) if len(part)]
        parts += [pd.concat(both).sort_values("seed", kind="stable")] if both else []
    return pd.concat(parts, ignore_index=True)


def with_new_cells(published: pd.DataFrame, made: pd.DataFrame, order: Sequence[Where]) -> pd.DataFrame:
    """Return the published rows of the table of cells, and those of cells that were not published, in their order."""
    there = [(published[select(published, values)], made[select(made, values)]) for values in order]
    return pd.concat([was if len(was) else now for was, now in there if len(was) or len(now)], ignore_index=True)


def difference(was: pd.DataFrame, now: pd.DataFrame) -> str | None:
    """Return where the numbers of two tables differ most, if that is by more than `CLOSE`, or what only the first has;
    None: nowhere."""
    if len(was) != len(now):
        return f"{len(was)} rows became {len(now)}"
    numbers = [str(column) for column in was.select_dtypes(["number", "bool"]) if was[column].notna().any()]
    if missing := [column for column in numbers if column not in now]:
        return f"there is no {', '.join(missing)} any more"
    old, new = (table[numbers].to_numpy(np.float64) for table in (was, now))
    with np.errstate(invalid="ignore"):  # infinities
        apart = abs(old - new) / np.maximum(abs(old), TINY)
    apart = np.where((old == new) | (np.isnan(old) & np.isnan(new)), 0.0, np.nan_to_num(apart, nan=np.inf))
    row, column = np.unravel_index(apart.argmax(), apart.shape)
    if apart[row, column] <= CLOSE:
        return None
    return f"{numbers[column]} was {old[row, column]:g}, now {new[row, column]:g}"


def first_versions(scenario: Scenario, code: Path, cache: Path) -> pd.DataFrame:
    """Run a scenario by the code in a folder, with torch's own kernels, and return its rounds. Raises RunError."""
    cache.mkdir(parents=True, exist_ok=True)
    program = (
        "import sys, pathlib, yaml, asyncfl; from asyncfl.api import execute\n"
        "assert pathlib.Path(asyncfl.__file__).is_relative_to(sys.argv[2]), 'there is no asyncfl in it'\n"
        "execute(yaml.safe_load(sys.stdin), sys.argv[1])"
    )
    with TemporaryDirectory(dir=cache) as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, f"{folder}/run", str(code)],
            input=yaml.safe_dump(explicit_fields(scenario)),
            env={**os.environ, "PYTHONPATH": str(code), "ASYNCFL_KERNELS": "torch"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RunError(f"the code in {code} cannot run the scenario: {done.stderr.strip().splitlines()[-1]}")
        return read_run(f"{folder}/run")[0]


def judged_on(experiment: Experiment, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the columns over the rounds that claims read, of the versions at which one of them was measured."""
    named = {column for claim in experiment.claims for _, table, column in claim.columns_named if table == "rounds"}
    columns = [column for column in rounds if column in named]
    keys = [*(axis for axis in experiment.grid("full")), "seed", "round"]
    return rounds[[*keys, *columns]].dropna(how="all", subset=columns)


def is_made(folder: Path, scenario: Scenario) -> bool:
    """Tell whether a whole run of a scenario is there, made by the code of today."""
    codes = read_codes(folder) if (folder / COMPLETE).is_file() else None
    return codes is not None and codes.own == code_digest(scenario.settled())


def compute_run(scenario: Scenario, runs: Path) -> float:
    """Compute a run into its folder below `runs`, unless it is there; return its seconds. Raises AsyncflError."""
    digest, code = scenario.digest(), code_digest(scenario.settled())
    folder = runs / digest
    if not is_made(folder, scenario):
        cache = runs.parent / ".cache" / digest / code
        run = RunFolder(folder, scenario)
        run.check(force=True)
        execute(scenario, cache / "run", seed_cache=runs.parent / ".cache" / "seeds" / code)
        publish(cache, run, code)
        shutil.rmtree(cache.parent, ignore_errors=True)
    return seconds_of(folder)


def parsed(asked: Sequence[str]) -> Where:
    """Return `AXIS=VALUE` items as axis -> values in words. Raises ScenarioError."""
    found: dict[str, list[str]] = {}
    for item in asked:
        axis, equals, value = item.partition("=")
        if not equals:
            raise ScenarioError([Fault("--where", f"must be AXIS=VALUE, got {item!r}")])
        found.setdefault(axis, []).append(value)
    return dict(found)


def main() -> None:
    """Add seeds to what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="+", help="experiments or folders of them, e.g. nbafl/fig5 safl")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="where runs are computed")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--core-hours", default="1", help="estimated, of each experiment's new seeds")
    parser.add_argument(
        "--where", action="append", default=[], metavar="AXIS=VALUE", help="only these cells; repeat it"
    )
    parser.add_argument("--cells", action="store_true", help="cells that are not published, at their first look")
    parser.add_argument("--anew", type=int, default=0, metavar="N", help="all seeds of the cells, N at least")
    parser.add_argument("--checkout", type=Path, help="folder with the commit that made the seeds, see the README")
    parser.add_argument("--dry-run", action="store_true", help="say what would be computed")
    parser.add_argument("--no-commit", action="store_true", help="write, and leave the commit to you")
    given = parser.parse_args()
    publisher = Publisher(
        ROOT / "workflow" / "experiments", given.results.resolve(), given.into.resolve(), 0.0, 0.0, given.cores
    )
    more = MoreSeeds(publisher)
    try:
        where, core_hours = parsed(given.where), hours(given.core_hours)
        if given.cores < 1 or given.anew < 0:
            raise ScenarioError([Fault("--cores, --anew", "must be at least 1 and 0")])
        if given.cells and given.anew:
            raise ScenarioError([Fault("--cells, --anew", "are of other cells; give one of them")])
        publisher.judge_edited()
        for name in publisher.in_order(given.only):
            additions = more.additions(name, core_hours, where, given.anew, given.cells)
            estimated = sum(of.scenario.estimated_cost() for of in additions) / 3600
            print(f"{name}: {len(additions)} cells, estimated {estimated:.2f} core-hours", flush=True)
            for of in additions:
                print(f"  {describe(of.cell.values)}: seeds {', '.join(map(str, of.seeds))}", flush=True)
            if given.dry_run or not additions:
                continue
            print(more.check(name, additions, given.checkout and given.checkout.resolve()), flush=True)
            more.compute(additions, given.cores, lambda line: print(line, flush=True))
            more.publish(name, additions)
            publisher.report({})
            if not given.no_commit:
                what = "cells" if given.cells else "more seeds"
                commit(publisher.into, f"Published results: {what} of {name}")
    except AsyncflError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
