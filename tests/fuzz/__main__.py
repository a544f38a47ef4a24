"""`python -m tests.fuzz --mutations 20000 --what scenarios`: the fuzzer by hand; status 1 where it found something."""

import argparse
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

from tests.fuzz.judging import campaign
from tests.fuzz.subjects import SUBJECTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--what", choices=sorted(SUBJECTS), default="scenarios")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        report = campaign(
            SUBJECTS[asked.what], asked.mutations, asked.seed, Path(folder), told=partial(print, flush=True)
        )
    print(report)
    return 1 if report.findings else 0


sys.exit(main())
