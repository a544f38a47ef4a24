"""Job: attacks one upload of each run of an experiment, and writes what comes of it."""

from pathlib import Path

from asyncfl.experiment import cells, load
from asyncfl.experiment.job import logged
from asyncfl.results.pictures import make_pictures

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name)
    runs = Path(snakemake.config["results"], "runs")
    found = [(cell.values, runs / cell.scenario.digest()) for cell in cells(experiment, snakemake.config["scale"])]
    make_pictures(experiment, found, Path(snakemake.output[0]).parent)
