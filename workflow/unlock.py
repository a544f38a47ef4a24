"""Take away the lock that a killed run of this workflow left behind, if no run of it lives.

Snakemake locks its folder while it works and asks for `--unlock` after a kill. Whether another Snakemake works in this
folder is seen from the processes of the machine. Runs of another machine or another user cannot be seen: their locks
stay. A run that finds no lock writes the name of its machine into `MACHINE` before it locks the folder.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

MACHINE = Path(".snakemake", "machine_of_lock")


def lives_here(folder: Path) -> bool:
    """Whether a process of Snakemake works in `folder`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            names = [Path(os.fsdecode(part)).name for part in (process / "cmdline").read_bytes().split(b"\0")]
            if "snakemake" in names and (process / "cwd").resolve() == folder:
                return True
        except OSError:
            continue  # ended meanwhile, or another user's
    return False


def not_ours(folder: Path, locks: list[Path]) -> str | None:
    """Return whose the locks of a folder are, in words; None: they are of this user on this machine."""
    if others := sorted({lock.stat().st_uid for lock in locks} - {os.geteuid()}):
        return f"the user with the number {others[0]}"
    try:
        machine = (folder / MACHINE).read_text(encoding="utf-8").strip()
    except OSError:
        return "an unknown machine"
    return None if machine == socket.gethostname() else f"the machine {machine}"


def main() -> None:
    """Unlock the working folder, or leave it alone."""
    here = Path.cwd().resolve()
    locks = [*(here / ".snakemake" / "locks").glob("*")]
    if not locks or not Path("/proc/self").exists():
        return
    if lives_here(here):
        sys.exit("another run of this workflow is at work here; wait for it, or stop it")
    if owner := not_ours(here, locks):
        sys.exit(f"{here} is locked by {owner}; if no run is at work there any more, type snakemake --unlock")
    print("the last run was interrupted; taking its lock away", file=sys.stderr)
    subprocess.run(["snakemake", "--unlock", "--quiet"], check=True)


if __name__ == "__main__":
    main()
