"""Job: attack uploads and models of each run of an experiment, and write the results."""

from pathlib import Path

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.experiments.attacks import attack
from asyncfl.experiments.job import logged
from asyncfl.experiments.loading import load
from asyncfl.experiments.plan import runs_among

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name, check=False)
    runs = Path(snakemake.config["results"], "runs")
    given = {Path(file).parent.name for file in snakemake.input.runs}
    cells = runs_among(experiment, snakemake.config["scale"], given)
    found = [(cell.values, cell.folder(runs)) for cell in cells]
    print(f"{len(found)} runs are attacked", flush=True)
    attack(experiment, found, Path(snakemake.output[0]).parent)
