# Reads configuration and experiment files, once, before any rule is made.

import contextlib
import os
import socket
import sys
from pathlib import Path

from snakemake.utils import min_version, validate

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

from asyncfl.base.errors import AsyncflError
from asyncfl.results.figure_style import METADATA
from asyncfl.experiments.analysis import CAPTIONS, style_of, table_files
from asyncfl.experiments.files import rule_name
from asyncfl.experiments.next_looks import hours
from asyncfl.experiments.plan import RUN_FILES, make_plan, read_looks
from asyncfl.experiments.report import page_files
from asyncfl.experiments.verdicts import best_scale
from snakemake_logger_plugin_asyncfl import expect

min_version("9.0")

# A lock says not on which machine its run is at work: workflow/unlock.py reads this.
if workflow.is_main_process and not any(Path(".snakemake", "locks").glob("*")):
    with contextlib.suppress(OSError):
        Path(".snakemake").mkdir(exist_ok=True)
        Path(".snakemake", "machine_of_lock").write_text(
            socket.gethostname(), encoding="utf-8"
        )


ROOT = Path(workflow.basedir)
AT_ONCE = 10**6  # priority of what runs are there for, before that of any run


configfile: ROOT.joinpath("workflow", "config", "config.yaml").as_posix()


validate(config, ROOT.joinpath("workflow", "schemas", "config.schema.yaml").as_posix())


def stop(message):
    """Ends with the message alone; a fault of the user's input needs no traceback."""
    print(message, file=sys.stderr)
    sys.exit(1)


def setting(name):
    """A setting of the configuration; an environment variable ASYNCFL_<NAME> stands in where it is empty."""
    return config.get(name) or os.environ.get(f"ASYNCFL_{name.upper()}", "")


RESULTS = setting("results") or "results"
EXPERIMENTS = (
    setting("experiments") or ROOT.joinpath("workflow", "experiments").as_posix()
)
ONLY = config["only"].split(",")

try:
    hours(config["core_hours"])
    style_of(config["style"])
    PLAN = make_plan(
        EXPERIMENTS,
        setting("scale") or "quick",
        ONLY,
        RESULTS,
        60 * config["job_minutes"],
        write=not workflow.dryrun,
        cached=True,
    )
except AsyncflError as error:
    stop(error)

expect(PLAN.jobs)
for name, reason in PLAN.without_data.items() if workflow.is_main_process else ():
    print(f"not run: {name} {reason}", file=sys.stderr)


def folder_of(name):
    """Where an experiment's tables, figures and verdicts lie."""
    return f"{RESULTS}/{PLAN.scale}/{name}"


def threads_of(job):
    """Threads of a job: several on this machine only, as a job on a node of a cluster has no other cores than its own."""
    return lambda wildcards: (
        1
        if workflow.non_local_exec or workflow.remote_exec
        else PLAN.threads(job, workflow.cores)
    )


def growing(amount):
    """A resource that a job which failed gets more of when it is tried again."""
    return lambda wildcards, attempt: attempt * amount


def finished_before():
    """Verdicts of experiments that this call does not compute, or that are there at a better scale."""
    return [
        f"{RESULTS}/{scale}/{name}/claims.csv"
        for name in PLAN.experiments
        if (scale := best_scale(RESULTS, name)) is not None
        and not (name in PLAN.selected and scale == PLAN.scale)
    ]


# Paths are passed to jobs here and not as parameters, so that a moved folder is no reason to compute again.
config.update(
    experiments=EXPERIMENTS,
    scale=PLAN.scale,
    results=RESULTS,
    only=",".join(ONLY),
    origins=PLAN.origins,
    codes=PLAN.codes,
    growing=sorted(PLAN.growing),
    without_data=PLAN.without_data,
)
