"""Job: writes an experiment's tables from its runs."""

from pathlib import Path

from asyncfl.experiment import load
from asyncfl.experiment.job import logged
from asyncfl.experiment.plan import runs_among
from asyncfl.results.tables import make_tables

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name)
    scale = snakemake.config["scale"]
    runs = Path(snakemake.config["results"], "runs")
    given = {Path(file).parent.name for file in snakemake.input.runs}
    found = [(cell.values, runs / digest) for cell, digest in runs_among(experiment, scale, given)]
    make_tables(experiment, scale, found, Path(snakemake.output[0]).parent)
