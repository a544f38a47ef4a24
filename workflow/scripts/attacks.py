"""Job: attack uploads and models of each run of an experiment, and write the results."""

from pathlib import Path

from asyncfl.experiment import load
from asyncfl.experiment.job import logged
from asyncfl.experiment.plan import runs_among
from asyncfl.results.membership import infer_membership
from asyncfl.results.pictures import make_pictures

with logged(snakemake.log[0]):
    experiment = load(snakemake.input.experiment, snakemake.params.name, check=False)
    runs = Path(snakemake.config["results"], "runs")
    given = {Path(file).parent.name for file in snakemake.input.runs}
    cells = runs_among(experiment, snakemake.config["scale"], given)
    found = [(cell.values, cell.folder(runs, digest)) for cell, digest in cells]
    print(f"{len(found)} runs are attacked", flush=True)
    folder = Path(snakemake.output[0]).parent
    if experiment.pictures:
        make_pictures(experiment, found, folder)
    if experiment.membership:
        infer_membership(experiment, found, folder)
