"""Publish results at full scale: `make publish` computes what `docs/results/` lacks, experiment by experiment.

An experiment is computed by the workflow, its verdicts and tables are copied to `docs/results/full/`, with a file that
says which code, machine and data made them, and are committed. `make docs` draws figures and pages from them
(`workflow/published.py`). What was published by the same code for the
same cells is not computed again, here or on another machine; claims that were edited since are judged anew from the
published tables. It may be interrupted at any time, and called again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from scour import scour

from asyncfl.base.errors import AsyncflError, OutputError
from asyncfl.base.files.atomic import write_text
from asyncfl.base.files.own_folder import write_json
from asyncfl.data.image_file import ImageFile
from asyncfl.experiments.analysis import CAPTIONS, FRAMES, values_of_bounds
from asyncfl.experiments.cells import Cell
from asyncfl.experiments.code import code_digest, combined
from asyncfl.experiments.csv_files import MEMBERSHIP, PICTURES, is_table, plain, read_csv, write_csv
from asyncfl.experiments.evidence.decision import ONE_LOOK, Looks
from asyncfl.experiments.figures import Curves
from asyncfl.experiments.files import find, rule_name
from asyncfl.experiments.grid import same
from asyncfl.experiments.job import commit as present_commit
from asyncfl.experiments.job import read_codes
from asyncfl.experiments.plan import all_cells, load_all, select
from asyncfl.experiments.report import write_claims
from asyncfl.experiments.site.contents import PROVENANCE
from asyncfl.experiments.spec import Experiment
from asyncfl.experiments.verdicts import finished, make_verdicts, with_new_axes
from asyncfl.results.storage import COMPLETE

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow.published import LIST, MEANS, PACKED, is_drawable, is_there, means  # noqa: E402

ORDER = ("nbafl", "safl", "adaptive", "outside", "mechanisms", "ledger", "audit", "clock", "defence", "algorithms")
"""Folders of experiments, what rests on papers first: hours may end before the last."""
WITHOUT = (".pdf", ".png")
"""Endings of figures that are not published."""
ROUNDS, CURVES = "rounds.csv", "curves.csv"
"""Published as `rounds.csv.gz`; where that is too large, the curves that figures draw are published instead."""
LONG = 20_000
"""Bytes above which another table is compressed too."""
LARGEST = 1_000_000
"""Bytes of the largest file that is published."""
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "simpy", "snakemake")
LARGEST_ROUNDS = 180_000
"""Bytes of the largest packed table of rounds that is published: all results together stay below 8 MB."""


@dataclass(frozen=True)
class Provenance:
    """Where the published results of an experiment come from."""

    experiment: str
    commits: list[str]
    """Commits of the code that made its runs."""
    code: str
    """Digest of that code: the parts of it that a run reaches."""
    computed: str
    """Date of the newest run."""
    core_hours: float
    """Hours of one core, of runs that no experiment published before had."""
    cells: int
    seeds: str
    """Fewest and most seeds of a cell."""
    cut: str
    """What the budget left out, or which cells are not run; empty where nothing."""
    cpu: list[str]
    python: str
    versions: dict[str, str]
    data: dict[str, str]
    """File of each data set -> its SHA-256; none for recorded runs and formulas."""
    file: str
    """Digest of the experiment file that the verdicts were made with."""
    looks: list[int] = field(default_factory=list)
    """Numbers of seeds that are looked at; empty where they were listed."""
    added: list[int] = field(default_factory=list)
    """The last of these numbers, where they were added because the planned ones had left claims open."""


class Publisher:
    """Publishes experiments into a folder.

    experiments: folder of their files. results: where the workflow computes. into: where the published results are.
    core_hours: of all that is published; `each`: of one experiment.
    """

    def __init__(
        self, experiments: Path, results: Path, into: Path, core_hours: float, each: float, cores: int = 1
    ) -> None:
        self.results, self.into, self.cores = results, into, cores
        self.core_hours, self.each = core_hours, each
        self.paths = find(experiments)
        self.experiments = load_all(self.paths)

    def in_order(self, only: list[str]) -> list[str]:
        """Return the names of the experiments, sorted as `ORDER` says. Raises ScenarioError for unknown ones."""
        names = select(list(self.experiments), only)
        return sorted(names, key=lambda name: (ORDER.index(name.split("/")[0]), name))

    def folder(self, name: str) -> Path:
        return self.into / "full" / name

    def digest(self, name: str) -> str:
        """Return a digest of an experiment's file, and of what its papers print."""
        papers = {
            paper: {k: v.model_dump() for k, v in of.items()} for paper, of in self.experiments[name].papers.items()
        }
        told = json.dumps(papers, sort_keys=True, default=str).encode()
        return hashlib.sha256(self.paths[name].read_bytes() + told).hexdigest()[:16]

    def published(self) -> dict[str, Provenance]:
        """Return what is published, by experiment."""
        found = {}
        for name in self.experiments:
            file = self.folder(name) / PROVENANCE
            if file.is_file():
                found[name] = Provenance(**json.loads(file.read_text(encoding="utf-8")))
        return found

    def is_current(self, name: str) -> bool:
        """Tell whether this code made what is published of an experiment, for all cells and looks of its file."""
        told = self.published().get(name)
        if told is None:
            return False
        cells = published_cells(self.experiments[name], set(runs_in(self.folder(name))))
        return (
            cells is not None
            and not cells_not_run(self.experiments[name], cells)
            and told.code == code_of(cells)
            and (told.looks, told.added) == looks_of(self.experiments[name])
        )

    def left_hours(self) -> float:
        return self.core_hours - sum(told.core_hours for told in self.published().values())

    def missing_hours(self, name: str) -> tuple[float, float]:
        """Return the estimated core hours of the first look's runs that are not on disk, and of all later looks."""
        looks = list(all_cells(self.experiments[name], "full"))
        hours = [sum(cell.scenario.estimated_cost() for cell in look) / 3600 for look in (looks[0], looks[-1])]
        runs = {cell.digest: cell for cell in looks[0] if cell.recording is None}
        there = {digest for digest in runs if (self.results / "runs" / digest / COMPLETE).is_file()}
        missing = sum(cell.scenario.estimated_cost() for digest, cell in runs.items() if digest not in there) / 3600
        return missing, hours[1] - hours[0]

    def compute(self, name: str, core_hours: float) -> None:
        """Have the workflow compute an experiment. Raises CalledProcessError."""
        config = ["scale=full", f"results={self.results}", f"only={name}", f"core_hours={core_hours:.3f}"]
        asked = [sys.executable, "-m", "snakemake", "--cores", str(self.cores), "--quiet", "all", "--rerun-incomplete"]
        # its tables, figures and verdicts are made anew by the code of today
        again = ["--forcerun", rule_name("analysis", name)]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        command = [*asked, "--config", *config, *again, "--", rule_name("", name)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)

    def publish(self, name: str, cut: str = "") -> None:
        """Copy what was made of an experiment, or of some of its cells, in place of what was published before."""
        experiment, made = self.experiments[name], self.results / "full" / name
        cells = published_cells(experiment, set(runs_in(made)))
        wrong = f"{name}: its tables are not of the cells that its file has"
        assert cells is not None, wrong
        assert cells or experiment.scenario is None, wrong
        runs = list(dict.fromkeys(cell.folder(self.results / "runs") for cell in cells))
        elsewhere = {run for other in self.published() if other != name for run in runs_in(self.folder(other))}
        found = [codes for run in runs if (codes := read_codes(run)) is not None]
        newest = max((run / COMPLETE for run in runs), key=lambda file: file.stat().st_mtime, default=made)
        seeds = [len(cell.scenario.seeds) for cell in cells] or [0]
        looks, added = looks_of(experiment)
        told = Provenance(
            experiment=name,
            commits=sorted({codes.commit for codes in found}) or [present_commit()],
            code=code_of(cells) if not found else combined(codes.own for codes in found),
            computed=datetime.fromtimestamp(newest.stat().st_mtime, UTC).date().isoformat(),
            core_hours=round(sum(seconds_of(run) for run in runs if run.name not in elsewhere) / 3600, 3),
            cells=len(cells),
            seeds=f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}",
            cut=cut,
            cpu=sorted({codes.cpu for codes in found}),
            python=platform.python_version(),
            versions={package: version(package) for package in PACKAGES},
            data=checksums(cells),
            file="",  # that of the experiment, once its claims are judged: an interrupted call goes on from there
            looks=looks,
            added=added,
        )
        with self.replacing(name, made, lambda _, files: [one for one in files if not is_published(one)]) as folder:
            write_json(asdict(told), folder / PROVENANCE)
        self.judge(name)

    @contextmanager
    def replacing(
        self, name: str, by: Path, left_out: Callable[[str, list[str]], Iterable[str]] | None = None
    ) -> Iterator[Path]:
        """Yield a copy of the folder `by`, which then takes the place of what is published of an experiment.

        Raises OutputError where something else is there.
        """
        folder = self.folder(name)
        staging, before = (folder.with_name(f".{folder.name}{end}") for end in ("", ".before"))
        if (before / PROVENANCE).is_file() and not folder.exists():  # a former call was killed between two moves
            before.rename(folder)
        if folder.is_symlink() or (folder.exists() and not (folder / PROVENANCE).is_file()):
            raise OutputError(f"cannot write {folder}: it was not published by this program; move it away")
        for left in (staging, before):
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(by, staging, ignore=left_out)
        yield staging
        if folder.exists():
            folder.rename(before)
        staging.rename(folder)
        shutil.rmtree(before, ignore_errors=True)

    def judge(self, name: str) -> None:
        """Judge an experiment's claims on all of its published seeds, and on the formulas that it names now, and write
        the tables that it names now."""
        self.drop_removed_cells(name)
        experiment, folder, told = self.experiments[name], self.folder(name), self.published()[name]
        (folder / "bounds.csv.gz").unlink(missing_ok=True)
        write_csv(values_of_bounds(experiment, "full"), folder / "bounds.csv")
        make_verdicts(experiment, "full", folder, published_looks(experiment, told))
        final = means(experiment, with_new_axes(experiment, read_csv(folder / "ends.csv")))
        for table in folder.glob("*.md"):
            table.unlink()
        for shown in experiment.tables:
            write_text(shown.markdown(experiment.grid("full"), final), folder / f"{shown.name}.md")
        claims = read_csv(folder / "claims.csv")
        write_csv(claims.assign(commit=" ".join(told.commits)), folder / "claims.csv")
        pack(experiment, folder)
        cells = published_cells(experiment, set(runs_in(folder)))
        cut = cells_not_run(experiment, cells) if cells is not None else ""
        write_json({**asdict(told), "cut": cut or told.cut, "file": self.digest(name)}, folder / PROVENANCE)

    def drop_removed_cells(self, name: str) -> None:
        """Drop the published cells with axis values that the experiment's file no longer has. No number changes."""
        experiment, folder = self.experiments[name], self.folder(name)
        axes = experiment.grid("full")

        def remaining(frame: pd.DataFrame) -> pd.DataFrame:
            there = [sum(same(frame[axis], plain(v)) for v in axes[axis]) > 0 for axis in axes if axis in frame]
            return frame[np.logical_and.reduce(there)] if there else frame

        cells = read_csv(folder / "cells.csv")
        if len(remaining(cells)) == len(cells):
            return
        # packed figures show the dropped cells too
        with self.replacing(name, folder, shutil.ignore_patterns(f"*{PACKED}")) as staging:
            for table in (*(f"{frame}.csv" for frame in FRAMES), MEMBERSHIP, PICTURES):
                if is_table(staging / table):
                    left = remaining(read_csv(staging / table))
                    (staging / f"{table}.gz").unlink(missing_ok=True)
                    write_csv(left, staging / table)
            told = replace(self.published()[name], cells=len(read_csv(staging / "cells.csv")))
            write_json(asdict(told), staging / PROVENANCE)

    def judge_edited(self) -> list[str]:
        """Judge the published experiments whose files were edited since; return their names."""
        edited = [name for name, told in self.published().items() if told.file != self.digest(name)]
        for name in edited:
            self.judge(name)
        return edited

    def report(self, not_run: Mapping[str, str]) -> None:
        """Write the table of all claims and that of all experiments.

        not_run: why an experiment was left out by this call.
        """
        gone = [path.parent for path in self.into.glob(f"full/*/[!.]*/{PROVENANCE}")]
        for folder in (folder for folder in gone if f"{folder.parent.name}/{folder.name}" not in self.experiments):
            shutil.rmtree(folder)
        self.into.mkdir(parents=True, exist_ok=True)
        published, table = self.published(), self.into / LIST
        before = read_csv(table).to_dict("records") if table.is_file() else []
        known = {row["experiment"]: row["not_run"] for row in before if isinstance(row["not_run"], str)}
        rows = []
        for name in self.in_order([]):
            told = published.get(name)
            why = "" if told else not_run.get(name) or known.get(name) or "not computed yet"
            row = asdict(told) if told else {}
            row = {key: " ".join(row[key]) if key in ("commits", "cpu") else row[key] for key in KEPT if key in row}
            rows.append({"experiment": name, **row, "not_run": why})
        write_csv(pd.DataFrame(rows, columns=["experiment", *KEPT, "not_run"]), table)
        done = finished(self.into, self.experiments)
        write_claims(self.into, done, self.experiments, {row["experiment"]: row["not_run"] for row in rows})


KEPT = ("computed", "commits", "core_hours", "cells", "seeds", "cut", "cpu")
"""Columns of the table of experiments."""


def is_published(file: str) -> bool:
    return not file.startswith(".") and not file.endswith(WITHOUT)


def pack(experiment: Experiment, folder: Path) -> None:
    """Compress long tables, byte for byte the same each time, and remove files that are too large, tables that follow
    from others, and figures that `make docs` draws."""
    for file in folder.glob(f"{MEANS}*"):
        file.unlink()
    for table in (file for file in folder.glob("*.csv") if file.name != "claims.csv"):
        if table.name == ROUNDS or table.stat().st_size > LONG:
            compress(table)
    for file in folder.iterdir():
        if file.stat().st_size > (LARGEST_ROUNDS if file.name.startswith(ROUNDS) else LARGEST):
            print(f"{file.name} of {folder.parent.name}/{folder.name} has {file.stat().st_size} bytes: not published")
            file.unlink()
    pack_curves(experiment, folder)
    pack_figures(experiment, folder)


def compress(file: Path) -> None:
    """Replace a file by a compressed one, with equal bytes for equal content."""
    file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    file.unlink()


def pack_curves(experiment: Experiment, folder: Path) -> None:
    """Remove the table of curves, which follows from the rounds; where these are too large to be published, keep of it
    the columns that figures draw."""
    files = [file for end in ("", ".gz") if (file := folder / f"{CURVES}{end}").is_file()]
    figures = [figure for figure in experiment.all_figures if isinstance(figure, Curves)]
    named = ((*figure.columns_beside(), *(column for *_, column in figure.columns_named)) for figure in figures)
    drawn = set(chain.from_iterable(named))
    if files and drawn and not is_there(folder, "rounds"):
        curves = read_csv(folder / CURVES)
        if set(curves["metric"]) <= drawn:
            return
        write_csv(curves[curves["metric"].isin(drawn)], folder / CURVES)
        compress(folder / CURVES)
        return
    for file in files:
        file.unlink()


def pack_figures(experiment: Experiment, folder: Path) -> None:
    """Remove the figures that are drawn from published tables, and their captions; compress the others."""
    kept = [figure.name for figure in experiment.all_figures if not is_drawable(figure, folder)]
    shrink(folder)
    for figure in folder.glob("*.svg"):
        if figure.stem in kept:
            compress(figure)
        else:
            figure.unlink()
    captions = read_csv(folder / CAPTIONS) if (folder / CAPTIONS).is_file() else pd.DataFrame({"name": []})
    captions = captions[captions["name"].isin(kept)]
    if len(captions):
        write_csv(captions, folder / CAPTIONS)
    else:
        (folder / CAPTIONS).unlink(missing_ok=True)


def shrink(folder: Path) -> None:
    """Write the figures of a folder anew, a third smaller: without comments, long names and white space."""
    asked = ["--shorten-ids", "--enable-id-stripping", "--enable-comment-stripping", "--remove-metadata"]
    options = scour.parse_args([*asked, "--strip-xml-space", "--set-precision=6", "--indent=none", "--no-line-breaks"])
    for figure in folder.glob("*.svg"):
        figure.write_text(scour.scourString(figure.read_text(encoding="utf-8"), options), encoding="utf-8")


def runs_in(folder: Path) -> list[str]:
    """Return the folders' names of the runs that an experiment's tables are made from: digests, or recordings."""
    cells = read_csv(folder / "cells.csv")
    return [] if len(cells) == 0 else list(dict.fromkeys(cells["run"].dropna().astype(str)))


def published_cells(experiment: Experiment, runs: set[str]) -> list[Cell] | None:
    """Return the cells of these runs, each at one of its looks; None where a run is of no cell."""
    looks = list(all_cells(experiment, "full"))
    chosen = [next((cell for cell in at if name_of(cell) in runs), None) for at in zip(*looks, strict=True)]
    found = [cell for cell in chosen if cell is not None]
    return found if set(map(name_of, found)) == runs else None


def cells_not_run(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Return in words how many cells of an experiment are not among these; empty where none."""
    every = len(next(iter(all_cells(experiment, "full"))))
    return f"{every - len(cells)} of {every} cells are not run" if len(cells) < every else ""


def published_looks(experiment: Experiment, told: Provenance) -> Looks:
    """Return the looks at which the published seeds of an experiment were judged."""
    return Looks(experiment.seeds.at("full"), tuple(told.looks), tuple(told.added)) if told.looks else ONE_LOOK


def looks_of(experiment: Experiment) -> tuple[list[int], list[int]]:
    """Return the looks of an experiment, and those of them that were added; empty where its seeds are listed."""
    looks = experiment.seeds.looks("full")
    return list(looks.at), list(looks.added)


def name_of(cell: Cell) -> str:
    """Return the name of the folder of a cell's run."""
    return cell.folder(Path()).name


def code_of(cells: Iterable[Cell]) -> str:
    """Return the digest of the code that the runs of these cells would be made by today."""
    return combined(code_digest(cell.scenario.settled()) for cell in cells if cell.recording is None)


def seconds_of(run: Path) -> float:
    """Return the seconds that a run took, all seeds together; 0 for a recording."""
    file = run / "timing.json"
    return (
        sum(seed["total"] for seed in json.loads(file.read_text(encoding="utf-8")).values()) if file.is_file() else 0.0
    )


def checksums(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the name of each image file that these cells read, and its SHA-256: of a stand-in where one is read."""
    data = {(of.names, of.source): of for of in (cell.scenario.data for cell in cells if cell.recording is None)}
    opened = chain.from_iterable(of.sources() for of in data.values())
    files = sorted({source.path for source in opened if isinstance(source, ImageFile)})
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def commit(into: Path, message: str) -> None:
    """Commit the folder `into`, and nothing else, if it changed. Raises CalledProcessError."""
    git = ["git", "-C", str(ROOT)]
    subprocess.run([*git, "add", "--all", "--", str(into)], check=True)
    if subprocess.run([*git, "diff", "--cached", "--quiet", "--", str(into)], check=False).returncode:
        subprocess.run([*git, "commit", "--quiet", "-m", message, "--", str(into)], check=True)


def steps(publisher: Publisher, names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Publish these experiments, and yield for each its name, what was done, and why it was not run."""
    for name in names:
        if publisher.is_current(name):
            yield name, "is published", ""
            continue
        left = publisher.left_hours()
        first, later = publisher.missing_hours(name)
        most = min(publisher.each, left)
        if first > most:
            limit = (
                f"{left:.1f} left of {publisher.core_hours:g}"
                if left < publisher.each
                else f"{publisher.each:g} allowed"
            )
            yield name, "is not run", f"estimated {first:.1f} core-hours, more than the {limit}"
            continue
        publisher.compute(name, most - first)
        short = later > most - first
        publisher.publish(name, f"{most - first:.1f} core-hours for seeds after the first look" if short else "")
        yield name, f"computed, {publisher.published()[name].core_hours:.2f} core-hours", ""


def main() -> None:
    """Publish what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="experiments or folders of them, e.g. nbafl/fig2 safl; none: all")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="where the workflow computes")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--core-hours", type=float, default=20.0, help="of all that is published")
    parser.add_argument("--each", type=float, default=5.0, help="core-hours of one experiment")
    parser.add_argument("--no-commit", action="store_true", help="write, and leave the commit to you")
    given = parser.parse_args()
    folders = ROOT / "workflow" / "experiments", given.results.resolve(), given.into.resolve()
    publisher = Publisher(*folders, given.core_hours, given.each, given.cores)
    not_run: dict[str, str] = {}

    def finish(message: str) -> None:
        publisher.report(not_run)
        if not given.no_commit:
            commit(publisher.into, message)

    try:
        names = publisher.in_order(given.only)
        if edited := publisher.judge_edited():
            finish(f"Published results: claims judged again ({', '.join(edited)})")
        for name, done, why in steps(publisher, names):
            print(f"{name}: {done}{f': {why}' if why else ''}", flush=True)
            not_run |= {name: why} if why else {}
            if done.startswith("computed"):
                finish(f"Published results: {name} at full scale")
        finish("Published results: what was not run")
    except AsyncflError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
