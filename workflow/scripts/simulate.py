"""Job: computes the runs whose files it was asked for."""

import os
import shutil
from pathlib import Path

# Snakemake grants them all threads of the job: those are processes of one thread each, whose results do not depend on
# how many there are.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.api import execute
from asyncfl.experiments.job import logged, publish
from asyncfl.experiments.plan import scenarios
from asyncfl.results.storage import RunFolder
from asyncfl.simulation import SimulatedRuns


def compute() -> None:
    folders = dict.fromkeys(Path(output).parent for output in snakemake.output)
    config, workers = snakemake.config, snakemake.threads if snakemake.threads > 1 else 0
    codes, wanted = config["codes"], {folder.name: config["origins"][folder.name] for folder in folders}
    found = scenarios(config["experiments"], config["scale"], wanted)
    caches = {folder: folder.parents[1] / ".cache" / folder.name / snakemake.params.code for folder in folders}
    runs = {folder: RunFolder(folder, found[folder.name]) for folder in folders}
    for run in runs.values():
        run.check(force=True)
    # Snakemake deletes what a failed job wrote: runs wait in the cache until all of the job are whole.
    prior = SimulatedRuns()
    for folder, cache in caches.items():
        scenario = found[folder.name]
        # Seeds that are added later must not repeat these.
        seed_cache = folder.parents[1] / ".cache" / "seeds" / codes[folder.name]
        kept = seed_cache if folder.name in config["growing"] else None
        seeds = ", ".join(map(str, scenario.seeds))
        print(f"{folder.name}: seeds {seeds}, {scenario.protocol.rounds} versions", flush=True)
        execute(scenario, cache / "run", prior=prior, seed_cache=kept, workers=workers)
    for folder, cache in caches.items():
        publish(cache, runs[folder], codes[folder.name])
    print(f"{len(caches)} runs are whole")
    for cache in caches.values():
        shutil.rmtree(cache.parent, ignore_errors=True)


if __name__ == "__main__":  # processes that train import this file
    with logged(snakemake.log[0]):
        compute()
