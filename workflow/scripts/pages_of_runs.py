"""Job: writes a page for each run that there is room for."""

from pathlib import Path

from asyncfl.experiment.files import find
from asyncfl.experiment.job import logged
from asyncfl.experiment.plan import load_all
from asyncfl.results.finished import finished
from asyncfl.results.site.runs import write_run_pages

with logged(snakemake.log[0]):
    root = Path(snakemake.config["results"])
    done = finished(root, load_all(find(snakemake.config["experiments"]), check=False))
    print(f"{write_run_pages(root, done, Path(snakemake.output[0]))} pages")
