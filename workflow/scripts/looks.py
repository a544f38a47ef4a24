"""Job: decides which cells get more seeds."""

from pathlib import Path

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.base.files.own_folder import write_json
from asyncfl.experiments.job import logged
from asyncfl.experiments.loading import load
from asyncfl.experiments.next_looks import hours, next_looks
from asyncfl.experiments.plan import read_looks

with logged(snakemake.log[0]):
    params, before = snakemake.params, snakemake.input.get("before")
    paths = dict(zip(params.names, snakemake.input.experiments, strict=True))
    experiments = {name: load(path, name, check=False) for name, path in paths.items()}
    after = next_looks(
        experiments,
        snakemake.config["scale"],
        Path(snakemake.config["results"], "runs"),
        read_looks(before) if before else None,
        hours(params.core_hours),
    )
    print(f"looks made: {after}")
    write_json(after, Path(snakemake.output[0]))
