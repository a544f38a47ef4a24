"""The workflow through Snakemake's plugin for Slurm, with the profile of the documentation and a Slurm that is played
by small programs. The plugin is no dependency (with it every call looks for Slurm), so that this needs

    pip install snakemake-executor-plugin-slurm
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflow.test_snakefile import ROOT, TINY, write

pytestmark = pytest.mark.long

SBATCH = """
import os, subprocess, sys
from pathlib import Path

place, words = Path(os.environ["PLAYED_SLURM"]), sys.argv[1:]
with (place / "calls").open("a") as calls:
    calls.write(" ".join(word for word in words if not word.startswith("--wrap=")) + "\\n")
number = str(1 + len(list(place.glob("*.state"))))
state = place / f"{number}.state"
state.write_text("RUNNING")
command = next(word for word in words if word.startswith("--wrap=")).removeprefix("--wrap=")
log = words[words.index("--output") + 1].replace("%j", number)
Path(log).parent.mkdir(parents=True, exist_ok=True)
job = (
    "import subprocess, sys; from pathlib import Path; log = open(sys.argv[2], 'w'); "
    "status = subprocess.run(sys.argv[1], shell=True, stdout=log, stderr=subprocess.STDOUT).returncode; "
    "Path(sys.argv[3]).write_text('FAILED' if status else 'COMPLETED')"
)
subprocess.Popen(
    [sys.executable, "-c", job, command, log, str(state)],
    env={**os.environ, "SLURM_JOB_ID": number},
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
)
print(number)
"""
SQUEUE = """
import os
from pathlib import Path

for state in Path(os.environ["PLAYED_SLURM"]).glob("*.state"):
    print(f"{state.stem}|{state.read_text()}")
"""
SRUN = """
import os, sys

words = sys.argv[1:]
while words[0].startswith("-"):
    words.pop(0)
os.execvp(words[0], words)
"""
PROGRAMS = {
    "sbatch": SBATCH,
    "squeue": SQUEUE,
    "srun": SRUN,
    "sacctmgr": "print('your_account')",
    "sinfo": "print('your_partition')",
    "scontrol": "print('MinJobAge = 300 sec')",
    "scancel": "",
}


def profile() -> dict[str, Any]:
    """The one that the documentation shows."""
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"`profiles/slurm/config.yaml`:\n\n```yaml\n(.*?)```", text, flags=re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(shown)
    return found


def test_the_documented_profile_runs_an_experiment_on_slurm(tmp_path: Path) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    write(tmp_path, "tiny/one", TINY)
    programs, played = tmp_path / "bin", tmp_path / "slurm"
    for folder in (programs, played, tmp_path / "profile"):
        folder.mkdir()
    for name, code in PROGRAMS.items():
        path = programs / name
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
    (tmp_path / "profile" / "config.yaml").write_text(yaml.safe_dump(profile()))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ASYNCFL_", "SNAKEMAKE_"))}
    own["PATH"] = os.pathsep.join((str(programs), str(Path(sys.executable).parent), own["PATH"]))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--profile", str(tmp_path / "profile"), "--seconds-between-status-checks", "2"]
    command += ["--slurm-init-seconds-before-status-checks", "2"]
    command += ["--config", f"results={tmp_path / 'results'}", f"experiments={tmp_path / 'experiments'}"]
    result = subprocess.run(
        command, env={**own, "PLAYED_SLURM": str(played)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert (tmp_path / "results" / "index.html").is_file()
    assert {state.read_text() for state in played.glob("*.state")} == {"COMPLETED"}
    calls = (played / "calls").read_text().splitlines()
    assert sum("rule_run_tiny_one_" in call for call in calls) == 1  # both cells of a small grid share a job
    resources = "-A your_account -p your_partition -t 240 --mem 4000 --ntasks=1 --cpus-per-task=1"
    assert all(resources in call for call in calls)
