"""Job: draws an experiment's figures from its tables."""

from pathlib import Path

from asyncfl.experiment import load
from asyncfl.experiment.job import logged
from asyncfl.results.figures import make_figures

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name)
    make_figures(experiment, snakemake.config["scale"], Path(snakemake.output[0]).parent)
