"""Job: writes the report over all experiments."""

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.experiments.files import find
from asyncfl.experiments.job import logged
from asyncfl.experiments.plan import load_all
from asyncfl.experiments.report import write_report
from asyncfl.experiments.scores import scores_in_words

with logged(snakemake.log[0]):
    config = snakemake.config
    experiments = load_all(find(config["experiments"]), check=False)
    claims = write_report(config["results"], experiments, without_data=config["without_data"])
    print(*scores_in_words(claims).values(), sep="\n")
