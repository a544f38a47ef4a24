"""A few mutants of each kind of input; `python -m tests.fuzz` tries as many as one likes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.campaign import campaign
from tests.fuzz.subjects import SUBJECTS


@pytest.mark.parametrize(("what", "mutations"), [("scenarios", 150), ("experiments", 60)])
def test_no_mutant_is_a_traceback_a_hang_or_nonsense_that_is_accepted(
    what: str, mutations: int, tmp_path: Path
) -> None:
    report = campaign(SUBJECTS[what], mutations, seed=1, folder=tmp_path)
    assert not report.findings, str(report)
    assert report.outcomes["refused"] > mutations / 4
    assert report.outcomes["accepted"] > 0
