"""Job: writes a page for each run that there is room for."""

from pathlib import Path

from asyncfl.experiments.files import find
from asyncfl.experiments.job import logged
from asyncfl.experiments.plan import load_all
from asyncfl.experiments.report import write_run_pages
from asyncfl.experiments.verdicts import finished

with logged(snakemake.log[0]):
    root = Path(snakemake.config["results"])
    done = finished(root, load_all(find(snakemake.config["experiments"]), check=False))
    print(f"{write_run_pages(root, done, Path(snakemake.output[0]))} pages")
