"""Job: writes an experiment's tables from its runs."""

from pathlib import Path

from asyncfl.experiment import cells, load
from asyncfl.experiment.job import logged
from asyncfl.results.tables import make_tables

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name)
    scale = snakemake.config["scale"]
    runs = Path(snakemake.config["results"], "runs")
    found = [(cell.values, runs / cell.scenario.digest()) for cell in cells(experiment, scale)]
    make_tables(experiment, scale, found, Path(snakemake.output[0]).parent)
