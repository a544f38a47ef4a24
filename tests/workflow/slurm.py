"""Run the workflow on a real Slurm of one node. By hand, as root on Debian:

    .venv/bin/python tests/workflow/slurm.py [--keep FOLDER]

Installs Slurm and munge from Debian's packages where they are missing, starts them in a new folder with a key, a socket
and ports of their own, and runs a tiny grid through `profiles/slurm`. Snakemake's plugin
goes into an environment of its own beside ours: where it is installed, every call of Snakemake looks for Slurm.

Checks that Slurm ran a job for each cell with the time and memory of its estimate, that a job which is killed is tried
again with twice as much, and that all runs are the same bytes as without Slurm. Ends all that it started.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from asyncfl.experiments.plan import make_plan  # noqa: E402
from tests.workflow.test_snakefile import TINY, write  # noqa: E402

CONFIGURED_AT = Path("/etc/slurm/slurm.conf")
DAEMONS = ("munged", "slurmctld", "slurmd")
CONFIGURATION = """
ClusterName=tiny
SlurmctldHost={host}
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
NodeName={host} CPUs={cores} RealMemory={memory_mb} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def run(*words: str | Path, **environment: str) -> str:
    """Run a command and return what it printed. Raises SystemExit with that where it fails."""
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition. Raises SystemExit after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds:g} s in vain until {what}")
        time.sleep(0.2)


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Slurm on this machine, as long as the context lasts; its commands find it by SLURM_CONF."""
    if any(shutil.which(daemon) is None for daemon in DAEMONS):
        run(
            "apt-get",
            "install",
            "-y",
            "--no-install-recommends",
            "slurm-wlm",
            "munge",
            DEBIAN_FRONTEND="noninteractive",
        )
    for place in ("state", "spool"):
        (folder / place).mkdir()
    key, configuration = folder / "munge.key", folder / "slurm.conf"
    key.touch(mode=0o400)
    key.write_bytes(secrets.token_bytes(1024))
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    configuration.write_text(
        CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0], folder=folder, cores=os.cpu_count(), memory_mb=memory_mb
        )
    )
    # The plugin takes all variables of Slurm out of the environment of its jobs, so that SLURM_CONF does not do.
    if CONFIGURED_AT.exists():
        raise SystemExit(f"{CONFIGURED_AT} is there: this machine has a Slurm")
    CONFIGURED_AT.parent.mkdir(exist_ok=True)
    CONFIGURED_AT.unlink(missing_ok=True)
    CONFIGURED_AT.symlink_to(configuration)
    munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    try:
        # munge refuses a socket below a folder that others may write to, such as /tmp, unless it is forced
        run("munged", "--force", f"--socket={folder}/munge.socket", *munge)
        run("slurmctld", "-L", folder / "slurmctld.log")
        run("slurmd", "-L", folder / "slurmd.log")
        wait_until(
            lambda: "idle" in subprocess.run(("sinfo",), capture_output=True, text=True).stdout, "a node is idle"
        )
        yield
    finally:
        CONFIGURED_AT.unlink()
        for name in ("slurmd", "slurmctld", "munge"):
            number = folder / f"{name}.pid"
            if number.exists():
                os.kill(int(number.read_text()), 15)


def plugin(folder: Path) -> Path:
    """Make an environment with Snakemake's plugin on top of ours; return its interpreter."""
    run(sys.executable, "-m", "venv", folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = next(path for path in map(Path, sys.path) if (path / "snakemake").is_dir())
    (packages / "ours.pth").write_text(f"{ours}\n{ROOT}\n")
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "snakemake-executor-plugin-slurm")
    return folder / "bin" / "python"


def workflow(python: Path, place: Path, results: str, *words: str) -> None:
    """Run the tiny grid, one run a job."""
    command = [python, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", place, *words]
    settings = [f"results={place / results}", f"experiments={place / 'experiments'}", "job_minutes=0"]
    path = os.pathsep.join((str(python.parent), os.environ["PATH"]))
    run(*command, "--config", *settings, PATH=path, PYTHONPATH=str(ROOT))


def kill_one(memory_mb: int) -> None:
    """Cancel the first running job that asked for so much memory."""

    def found() -> list[str]:
        lines = run("squeue", "--noheader", "--states=RUNNING", "--format=%i %m").splitlines()
        return [line.split()[0] for line in lines if line.split()[1] == f"{memory_mb}M"]

    wait_until(lambda: bool(found()), f"a job of {memory_mb} MB runs", 300.0)
    run("scancel", found()[0])


def completed(folder: Path) -> list[dict[str, str]]:
    """Return the jobs that Slurm has run."""
    lines = (folder / "completed").read_text().splitlines()
    return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]


def contents(runs: Path) -> dict[str, bytes]:
    """Return the files of all runs, without the seconds that they took."""
    files = (path for path in sorted(runs.rglob("*")) if path.is_file() and path.name != "timing.json")
    return {str(path.relative_to(runs)): path.read_bytes() for path in files}


def main() -> None:
    """Set Slurm up, run the grid on it, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="new folder for everything, which is kept; default: a temporary one")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slurm-") as temporary:
        folder = (chosen.keep or Path(temporary)).absolute()
        folder.mkdir(exist_ok=True)
        write(folder, "tiny/one", TINY)
        planned = make_plan(folder / "experiments", "quick", results=folder / "new", job_s=0.0).jobs
        first = planned[0]
        python = plugin(folder / "environment")
        with slurm(folder):
            status = "--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"
            began = time.monotonic()
            killer = Thread(target=kill_one, args=[first.memory_mb])
            killer.start()
            workflow(python, folder, "on_slurm", "--profile", str(ROOT / "profiles" / "slurm"), *status)
            killer.join()
            seconds = time.monotonic() - began
            wait_until(lambda: not run("squeue", "--noheader").strip(), "all jobs are done")
        jobs = completed(folder)
        workflow(python, folder, "here", "--cores", "2", "--executor", "local")
        for job in jobs:
            print(
                " ".join(f"{name}={job.get(name, '')}" for name in ("JobId", "Name", "JobState", "TimeLimit", "Tres"))
            )
        print(f"{len(jobs)} jobs in {seconds:.0f} s")
        asked = Counter((job["JobState"], job["TimeLimit"], job["Tres"].split(",")[1]) for job in jobs)
        assert len(planned) == 2
        assert asked["CANCELLED", str(first.minutes), f"mem={first.memory_mb}M"] == 1
        assert asked["COMPLETED", str(2 * first.minutes), f"mem={2 * first.memory_mb}M"] == 1
        assert asked["COMPLETED", str(planned[1].minutes), f"mem={planned[1].memory_mb}M"] == 1
        assert sum(number for (state, *_), number in asked.items() if state != "COMPLETED") == 1
        assert (folder / "on_slurm" / "index.html").is_file()
        ours, theirs = (contents(folder / name / "runs") for name in ("here", "on_slurm"))
        assert ours == theirs, "the runs differ"
        print(f"{len(ours)} files of the runs are the same bytes as without Slurm")


if __name__ == "__main__":
    main()
