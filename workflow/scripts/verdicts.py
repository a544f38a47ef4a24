"""Job: judges an experiment's claims on its tables."""

from pathlib import Path

from asyncfl.experiment import load
from asyncfl.experiment.job import logged
from asyncfl.results.verdicts import make_verdicts

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name)
    make_verdicts(experiment, snakemake.config["scale"], Path(snakemake.output[0]).parent)
