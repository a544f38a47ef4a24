"""Job: makes an experiment's tables from its runs, draws its figures and judges its claims."""

from pathlib import Path

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.experiments.analysis import make_figures, make_tables, style_of
from asyncfl.experiments.job import logged
from asyncfl.experiments.loading import load
from asyncfl.experiments.plan import runs_among
from asyncfl.experiments.scores import scores_in_words
from asyncfl.experiments.verdicts import make_verdicts

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name, check=False)
    scale = snakemake.config["scale"]
    runs = Path(snakemake.config["results"], "runs")
    given = {Path(file).parent.name for file in snakemake.input.runs}
    found = [(cell.values, cell.folder(runs)) for cell in runs_among(experiment, scale, given)]
    folder = Path(snakemake.output[0]).parent
    make_tables(experiment, scale, found, folder)
    print(f"tables of {len(found)} runs")
    figures = make_figures(experiment, scale, folder, style_of(snakemake.params.style))
    print(f"{len(figures)} files of figures")
    print(*scores_in_words(make_verdicts(experiment, scale, folder)).values(), sep="\n")
