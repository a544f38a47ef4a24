"""Job: writes the report over all experiments."""

from asyncfl.experiment.files import find
from asyncfl.experiment.job import logged
from asyncfl.experiment.plan import load_all
from asyncfl.results.report import write_report

with logged(snakemake.log[0]):
    score = write_report(snakemake.config["results"], load_all(find(snakemake.config["experiments"]), check=False))
    print(score.in_words)
