"""Take away the lock that a killed run of this workflow left behind, if no run of it lives.

Snakemake locks its folder while it works and asks for `--unlock` after a kill. Whether another Snakemake works in this
folder is seen from the processes of the machine; where that cannot be seen, nothing is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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


def main() -> None:
    """Unlock the working folder, or leave it alone."""
    here = Path.cwd().resolve()
    if not any((here / ".snakemake" / "locks").glob("*")) or not Path("/proc/self").exists():
        return
    if lives_here(here):
        sys.exit("another run of this workflow is at work here; wait for it, or stop it")
    print("the last run was interrupted; taking its lock away", file=sys.stderr)
    subprocess.run(["snakemake", "--unlock", "--quiet"], check=True)


if __name__ == "__main__":
    main()
