"""Job: decides which cells get more seeds."""

from pathlib import Path

from asyncfl.base.files.own_folder import write_json
from asyncfl.experiment import load
from asyncfl.experiment.job import logged
from asyncfl.experiment.plan import read_looks
from asyncfl.results.looks import hours, next_looks

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
