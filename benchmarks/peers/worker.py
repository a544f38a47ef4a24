"""Process of one simulator: runs a workload, and tells the CPU time of each round. Started by `compare.py` as

    ENVIRONMENT/bin/python worker.py SIMULATOR FOLDER CORE

It writes a line of JSON after each round and waits for a line before the next, so that the rounds of all simulators can
alternate. CPU time is that of the process and of all its descendants (Flower's simulation trains in other processes).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path


def descendants_s() -> float:
    """Return the CPU seconds of all living descendants, and of those that have ended and were waited for."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(folder.name)
        parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:15]))
    found, waiting = 0, [os.getpid()]
    while waiting:
        parent = waiting.pop()
        below = [number for number, above in parents.items() if above == parent]
        waiting += below
        found += sum(spent[number] for number in below)
    ended = os.times()
    return found / os.sysconf("SC_CLK_TCK") + ended.children_user + ended.children_system


def main() -> None:
    """Run the workload, and answer with what is asked for."""
    simulator, folder, core = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    # Simulators print; the answers have the pipe for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch
    from work import Work

    torch.set_num_threads(1)
    work = Work.read(Path(folder))
    # The first round includes the preparation and is not counted.
    began, done = 0.0, 0

    def turn() -> None:
        nonlocal began, done
        spent = time.process_time() + descendants_s() - began
        done += 1
        print(json.dumps({"cpu_s": spent}), file=answers)
        if done < work.rounds and not sys.stdin.readline():
            os._exit(1)  # compare.py has ended
        began = time.process_time() + descendants_s()

    versions, test_loss = importlib.import_module(f"by_{simulator}").run(work, turn)
    if done != work.rounds:
        raise RuntimeError(f"{simulator} ran {done} rounds and not {work.rounds}")
    print(json.dumps({"versions": {**versions, "torch": torch.__version__}, "test_loss": test_loss}), file=answers)
    sys.stdout.flush()
    # Servers and pools of a simulator may keep a process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
