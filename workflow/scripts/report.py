"""Job: writes the report over all experiments."""

from asyncfl.experiments.files import find
from asyncfl.experiments.job import logged
from asyncfl.experiments.plan import load_all
from asyncfl.experiments.report import write_report
from asyncfl.experiments.verdicts import scores_in_words

with logged(snakemake.log[0]):
    scores = write_report(snakemake.config["results"], load_all(find(snakemake.config["experiments"]), check=False))
    print(*scores_in_words(scores), sep="\n")
