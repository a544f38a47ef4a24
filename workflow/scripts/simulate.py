"""Job: computes the runs whose files it was asked for."""

from pathlib import Path

from asyncfl.api import execute
from asyncfl.experiment.job import logged, publish
from asyncfl.experiment.plan import scenarios

with logged(snakemake.log[0]):
    folders = dict.fromkeys(Path(output).parent for output in snakemake.output)
    found = scenarios(snakemake.config["experiments"], snakemake.config["scale"], [f.name for f in folders])
    caches = {folder: folder.parents[1] / ".cache" / folder.name / snakemake.params.code for folder in folders}
    # Snakemake deletes what a failed job wrote: runs wait in the cache until all of the job are whole.
    for folder, cache in caches.items():
        execute(found[folder.name], cache / "run", cache=cache)
    for folder, cache in caches.items():
        publish(cache, folder)
